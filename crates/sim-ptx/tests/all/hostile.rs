//! Fuzz tests: kernels with changed digits and random parameters may do anything but panic.

use tegula_sim_ptx::{Launch, Memory, Module, Options, launch};

const TEXTS: [&str; 2] = [
    include_str!("../programs/faults.ptx"),
    include_str!("../programs/programs.ptx"),
];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// The text with some digits and register numbers changed.
fn changed(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..2 {
        let at = random.below(bytes.len());
        if let Some(offset) = bytes[at..].iter().position(u8::is_ascii_digit) {
            bytes[at + offset] = b"0123456789"[random.below(10)];
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

#[test]
fn changed_kernels_do_not_panic() {
    let mut random = Random(3);
    let (mut ran, mut found) = (0, 0);
    for round in 0..600 {
        let text = changed(TEXTS[round % 2], &mut random);
        let Ok(module) = Module::parse(&text) else {
            continue;
        };
        for kernel in module.kernels() {
            let mut memory = Memory::new(1 << 20);
            let address = memory.allocate(5000).expect("room");
            let bytes = module
                .parameters(kernel)
                .and_then(|p| p.last())
                .map_or(0, |p| p.offset + p.bytes);
            let mut params: Vec<u8> = Vec::new();
            while (params.len() as u64) < bytes {
                let value = match random.below(6) {
                    0 => 0,
                    1 => u64::MAX - random.below(64) as u64,
                    2 => (1 << 32) + random.below(100) as u64,
                    3 => (2 << 32) + random.below(100) as u64,
                    _ => address + random.below(4000) as u64 / 4 * 4,
                };
                params.extend(value.to_le_bytes());
            }
            let block = [1 + random.below(70) as u32, 1 + random.below(3) as u32, 1];
            let shape = Launch {
                grid: [2, 1, 1],
                block,
                dynamic_shared: 300,
                params: &params,
            };
            let options = Options {
                max_instructions: 20_000,
                ..Options::default()
            };
            ran += 1;
            if let Ok(report) = launch(&module, kernel, &mut memory, &shape, &options) {
                found += report.findings.len();
            }
        }
    }
    assert!(ran > 300 && found > 300, "{ran} launches, {found} findings");
}
