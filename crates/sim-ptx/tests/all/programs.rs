//! Programs compiled by NVRTC, compared with their expected results.

use tegula_sim_ptx::{Launch, LaunchError, Memory, Module, Options, Report, launch};

const PTX: &str = include_str!("../programs/programs.ptx");

/// The module, the buffers and the other arguments of a kernel.
struct Host {
    module: Module,
    memory: Memory,
    params: Vec<u8>,
}

impl Host {
    fn new() -> Self {
        let module = Module::parse(PTX).expect("the module is read");
        Self {
            module,
            memory: Memory::new(1 << 26),
            params: Vec::new(),
        }
    }

    fn buffer(&mut self, bytes: &[u8]) -> u64 {
        let address = self.memory.allocate(bytes.len() as u64).expect("room");
        self.memory.write(address, bytes).expect("in bounds");
        self.pass(&address.to_le_bytes());
        address
    }

    /// An uninitialised buffer for results.
    fn result(&mut self, bytes: usize) -> u64 {
        let address = self.memory.allocate(bytes as u64).expect("room");
        self.pass(&address.to_le_bytes());
        address
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.params
            .resize(self.params.len().next_multiple_of(bytes.len()), 0);
        self.params.extend(bytes);
    }

    fn launch(&mut self, kernel: &str, grid: u32, block: u32, dynamic_shared: u32) -> Report {
        let shape = Launch {
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            dynamic_shared,
            params: &self.params,
        };
        let report = launch(
            &self.module,
            kernel,
            &mut self.memory,
            &shape,
            &Options::default(),
        )
        .expect("it runs");
        let mut errors = report.errors();
        assert!(errors.next().is_none(), "{kernel}: {}", report.findings[0]);
        drop(errors);
        report
    }

    fn read<const N: usize>(&self, address: u64, count: usize) -> Vec<[u8; N]> {
        let mut bytes = vec![0; count * N];
        self.memory.read(address, &mut bytes).expect("in bounds");
        bytes
            .chunks_exact(N)
            .map(|c| c.try_into().expect("N bytes"))
            .collect()
    }

    fn floats(&self, address: u64, count: usize) -> Vec<f32> {
        self.read(address, count)
            .into_iter()
            .map(f32::from_le_bytes)
            .collect()
    }

    fn ints(&self, address: u64, count: usize) -> Vec<i32> {
        self.read(address, count)
            .into_iter()
            .map(i32::from_le_bytes)
            .collect()
    }

    fn halves(&self, address: u64, count: usize) -> Vec<u16> {
        self.read(address, count)
            .into_iter()
            .map(u16::from_le_bytes)
            .collect()
    }
}

fn bytes<const N: usize>(values: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
    values.into_iter().flatten().collect()
}

/// A stream of pseudo-random numbers.
fn noise(seed: u64) -> impl Iterator<Item = u32> {
    (0u64..).map(move |i| {
        let mut z = (seed + i).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((z ^ (z >> 27)) >> 16) as u32
    })
}

fn reals(seed: u64, count: usize) -> Vec<f32> {
    noise(seed)
        .map(|u| (u as f32 / 4_294_967_296.0 - 0.5) * 8.0)
        .take(count)
        .collect()
}

fn close(ours: f64, expected: f64, tolerance: f64, what: &str) {
    let difference = (ours - expected).abs();
    assert!(
        difference <= tolerance * expected.abs().max(1e-3),
        "{what}: {ours} instead of {expected}"
    );
}

#[test]
fn softmax() {
    let (rows, n) = (4, 1000);
    let x = reals(1, rows * n);
    let mut host = Host::new();
    host.buffer(&bytes(x.iter().map(|v| v.to_le_bytes())));
    let y = host.result(4 * rows * n);
    host.pass(&(n as i32).to_le_bytes());
    let report = host.launch("softmax", rows as u32, 256, 0);
    assert!(report.findings.is_empty(), "{}", report.findings[0]);
    let y = host.floats(y, rows * n);
    for (x, y) in x.chunks(n).zip(y.chunks(n)) {
        let most = x.iter().copied().fold(f32::MIN, f32::max);
        let sum: f64 = x.iter().map(|v| f64::from(v - most).exp()).sum();
        for (x, y) in x.iter().zip(y) {
            close(
                f64::from(*y),
                f64::from(x - most).exp() / sum,
                2e-6,
                "softmax",
            );
        }
    }
}

#[test]
fn functions() {
    let n = 333;
    let x = reals(2, n);
    let mut host = Host::new();
    host.buffer(&bytes(x.iter().map(|v| v.to_le_bytes())));
    let (y, z) = (host.result(8 * 4 * n), host.result(6 * 8 * n));
    host.pass(&(n as i32).to_le_bytes());
    host.launch("functions", 6, 64, 0);
    let y = host.floats(y, 8 * n);
    let z: Vec<f64> = host
        .read(z, 6 * n)
        .into_iter()
        .map(f64::from_le_bytes)
        .collect();
    for i in 0..n {
        let v = f64::from(x[i]);
        let expected = [
            v.sin(),
            f64::from(x[i] * 1e5).cos(),
            v.tanh(),
            libm::erf(v),
            v.abs().powf(2.5),
            f64::from(x[i].abs() + 0.25).ln(),
            1.0 / f64::from(x[i].abs() + 0.5).sqrt(),
            f64::from(x[i] % 0.7),
        ];
        for (k, expected) in expected.into_iter().enumerate() {
            close(
                f64::from(y[k * n + i]),
                expected,
                1e-6,
                &format!("function {k} of {v}"),
            );
        }
        let expected = [
            (v * 1e6).sin(),
            v.abs().powf(1.3),
            v.exp(),
            (v.abs() + 0.25).ln(),
            1.0 / v,
            v.abs().sqrt(),
        ];
        for (k, expected) in expected.into_iter().enumerate() {
            close(
                z[k * n + i],
                expected,
                1e-13,
                &format!("f64 function {k} of {v}"),
            );
        }
    }
}

#[test]
fn integers() {
    let n = 500;
    let special = [0, 1, -1, i32::MAX, i32::MIN, 7, -7, 32];
    let pick = |seed: u64| -> Vec<i32> {
        let random = noise(seed).enumerate();
        random
            .map(|(i, u)| {
                if i % 5 == 0 {
                    special[u as usize % 8]
                } else {
                    u as i32 >> (u % 29)
                }
            })
            .take(n)
            .collect()
    };
    let (a, b) = (pick(3), pick(4));
    let mut host = Host::new();
    host.buffer(&bytes(a.iter().map(|v| v.to_le_bytes())));
    host.buffer(&bytes(b.iter().map(|v| v.to_le_bytes())));
    let y = host.result(20 * 4 * n);
    host.pass(&(n as i32).to_le_bytes());
    host.launch("integers", 4, 128, 0);
    let y = host.ints(y, 20 * n);
    for i in 0..n {
        let (p, q) = (a[i], b[i]);
        let (u, w) = (p as u32, q as u32);
        let l = i64::from(p)
            .wrapping_mul(1_000_003)
            .wrapping_add(i64::from(q));
        let k = i64::from(q) << 17 | 5;
        let permuted = (u & 0xff) | (w & 0xff) << 8 | (u & 0xff00) << 8 | (w & 0xff00) << 16;
        let expected = [
            if q == 0 { 0 } else { p.wrapping_div(q) },
            if q == 0 { 0 } else { p.wrapping_rem(q) },
            u.checked_div(w).unwrap_or(0) as i32,
            u.checked_rem(w).unwrap_or(0) as i32,
            ((i64::from(p) * i64::from(q)) >> 32) as i32,
            ((u64::from(u) * u64::from(w)) >> 32) as i32,
            u.count_ones() as i32,
            p.leading_zeros() as i32,
            u.reverse_bits() as i32,
            if p == 0 {
                0
            } else {
                p.trailing_zeros() as i32 + 1
            },
            permuted as i32,
            (((u64::from(w) << 32 | u64::from(u)) << (p & 31)) >> 32) as i32,
            p.min(q),
            u.max(w) as i32,
            l.wrapping_div(k | 1) as i32,
            ((l as u64) % ((k | 1) as u64)) as i32,
            (l >> 40) as i32,
            l.count_ones() as i32,
            ((i128::from(l) * i128::from(k)) >> 64) as i32,
            (i32::from(p as i16) * i32::from(q as i16))
                .wrapping_add(p.wrapping_sub(q).wrapping_abs()),
        ];
        for (j, expected) in expected.into_iter().enumerate() {
            assert_eq!(y[j * n + i], expected, "operation {j} of {p}, {q}");
        }
    }
}

#[test]
fn halves() {
    use half::{bf16, f16};
    let n = 1024;
    // Every 64th code, including subnormals, infinities and NaN.
    let x: Vec<bf16> = (0..n)
        .map(|i| bf16::from_bits((i * 64 + 5 * i / 64) as u16))
        .collect();
    let h: Vec<f16> = (0..n)
        .map(|i| f16::from_bits((i * 64 + 11 * i / 64) as u16))
        .collect();
    let mut host = Host::new();
    host.buffer(&bytes(x.iter().map(|v| v.to_bits().to_le_bytes())));
    host.buffer(&bytes(h.iter().map(|v| v.to_bits().to_le_bytes())));
    let (y, z, e) = (host.result(8 * n), host.result(6 * n), host.result(2 * n));
    host.pass(&(n as i32).to_le_bytes());
    host.launch("halves", 8, 128, 0);
    let (y, z, e) = (
        host.halves(y, 4 * n),
        host.halves(z, 3 * n),
        host.read::<1>(e, 2 * n),
    );
    let same = |ours: u16, expected: f64, exact: u16, what: &str| {
        assert!(
            ours == exact || expected.is_nan() && ours == 0x7fff,
            "{what}: {ours:#x} instead of {exact:#x}"
        );
    };
    for i in 0..n {
        let (f, g) = (f64::from(x[i]), f64::from(h[i]));
        let narrow = f16::from_f32(f as f32);
        let v = f64::from(narrow);
        // Sums and products of two half-precision numbers are exact in f64, and so are these sums
        // of three.
        same(y[i], v, narrow.to_bits(), "f16");
        same(y[n + i], g + v, f16::from_f64(g + v).to_bits(), "add.f16");
        same(
            y[2 * n + i],
            g * v + g,
            f16::from_f64(g * v + g).to_bits(),
            "fma.f16",
        );
        same(
            y[3 * n + i],
            g * g,
            f16::from_f64(g * g).to_bits(),
            "mul.f16",
        );
        let scaled = f as f32 * 1.001;
        same(
            z[i],
            f64::from(scaled),
            bf16::from_f32(scaled).to_bits(),
            "bf16",
        );
        let other = f64::from(bf16::from_f32(g as f32));
        same(
            z[2 * n + i],
            f + other,
            bf16::from_f64(f + other).to_bits(),
            "add.bf16",
        );
        if f.is_finite() {
            let limit = |most: f64| f.clamp(-most, most);
            let e4m3 = fp8_value(e[i][0], 3, 7);
            assert!(
                (e4m3 - limit(448.0)).abs() <= (f.abs() / 16.0).max(0.5f64.powi(10)),
                "e4m3 of {f}: {e4m3}"
            );
            let e5m2 = fp8_value(e[n + i][0], 2, 15);
            assert!(
                (e5m2 - limit(57344.0)).abs() <= (f.abs() / 8.0).max(0.5f64.powi(17)),
                "e5m2 of {f}: {e5m2}"
            );
        }
    }
}

fn fp8_value(bits: u8, mantissa: i32, bias: i32) -> f64 {
    let (exponent, fraction) = (
        i32::from(bits & 0x7f) >> mantissa,
        i32::from(bits) & ((1 << mantissa) - 1),
    );
    let magnitude = if exponent == 0 {
        f64::from(fraction) * 2f64.powi(1 - bias - mantissa)
    } else {
        f64::from(fraction | 1 << mantissa) * 2f64.powi(exponent - bias - mantissa)
    };
    if bits & 0x80 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

#[test]
fn calls_constants_and_switches() {
    let x: Vec<f32> = (0..96u16).map(f32::from).collect();
    let mut host = Host::new();
    host.buffer(&bytes(x.iter().map(|v| v.to_le_bytes())));
    let y = host.result(4 * 96);
    host.launch("calls", 1, 96, 4 * 96);
    let y = host.floats(y, 96);
    for i in 0..96usize {
        let (a, table) = (x[95 - i], [1.0, 2.0, 3.0, 4.0]);
        let v = if i % 2 == 1 {
            a * 2.0
        } else {
            a + table[i % 4]
        };
        let seen = [10.0, 20.0, 30.0, 40.0];
        let expected = match i % 9 {
            0 => v + 1.0,
            1 => v * 3.0,
            2 => v - seen[2],
            3 => -v,
            4 => v * v,
            5 => v + seen[i % 4],
            6 => v / 3.0,
            _ => 100.0,
        };
        assert_eq!(y[i], expected, "thread {i}");
    }
    let (address, size) = host
        .module
        .variable(&host.memory, "seen")
        .expect("a variable");
    assert_eq!(size, 16);
    assert_eq!(host.ints(address, 4), [10, 27, 30, 40]);
}

#[test]
fn collectives() {
    let x: Vec<i32> = noise(5).map(|u| (u % 20) as i32).take(64).collect();
    let mut host = Host::new();
    host.buffer(&bytes(x.iter().map(|v| v.to_le_bytes())));
    let y = host.result(4 * 641);
    host.launch("collectives", 1, 64, 0);
    let y = host.ints(y, 641);
    for i in 0..64 {
        let warp = &x[i / 32 * 32..][..32];
        let lane = i % 32;
        let mask = |f: &dyn Fn(i32) -> bool| {
            (0..32)
                .filter(|l| f(warp[*l]))
                .fold(0u32, |m, l| m | 1 << l) as i32
        };
        let expected = [
            mask(&|v| v > 10),
            i32::from(warp.contains(&3)),
            1,
            mask(&|v| v % 5 == warp[lane] % 5),
            warp.iter().sum(),
            *warp.iter().max().expect("32"),
            if lane < 3 { warp[lane] } else { warp[lane - 3] },
            if lane % 8 < 3 {
                warp[lane + 5]
            } else {
                warp[lane]
            },
            warp[lane / 16 * 16 + 7],
            if lane < 12 { warp[lane ^ 1] } else { 0 },
        ];
        for (j, expected) in expected.into_iter().enumerate() {
            assert_eq!(y[j * 64 + i], expected, "collective {j}, thread {i}");
        }
    }
    let count = x.iter().filter(|v| **v > 10).count() as i32;
    assert_eq!(y[640], count * 2 + i32::from(x.contains(&3)));
}

#[test]
fn atomics() {
    let mut host = Host::new();
    let c = host.buffer(&bytes(
        [0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0].map(|v: i32| v.to_le_bytes()),
    ));
    let f = host.buffer(&[0; 4]);
    let d = host.buffer(&[0; 8]);
    let h = host.buffer(&[0; 4]);
    let b = host.buffer(&[0; 4]);
    let l = host.buffer(&[0; 8]);
    host.launch("atomics", 2, 64, 0);
    let n = 128;
    let xor = (0..n).fold(0, |x, i| x ^ i);
    let most = (0..n).map(|i| i * 37 % 101).max().expect("some");
    let sums = [0, 1, 2, 3].map(|k| (0..n).filter(|i| i % 4 == k).sum::<i32>());
    let expected = [
        n,
        most,
        1 - n,
        0,
        255,
        xor,
        n % 11,
        5,
        sums[0],
        sums[1],
        sums[2],
        sums[3],
    ];
    assert_eq!(host.ints(c, 12), expected);
    assert_eq!(host.floats(f, 1), [64.0]);
    assert_eq!(f64::from_le_bytes(host.read(d, 1)[0]), 32.0);
    assert_eq!(
        host.halves(h, 2)
            .iter()
            .map(|v| half::f16::from_bits(*v).to_f32())
            .collect::<Vec<_>>(),
        [128.0, 256.0]
    );
    assert_eq!(
        host.halves(b, 2)
            .iter()
            .map(|v| half::bf16::from_bits(*v).to_f32())
            .collect::<Vec<_>>(),
        [128.0, 256.0]
    );
    assert_eq!(u64::from_le_bytes(host.read(l, 1)[0]), 128 << 33);
}

#[test]
fn matrix_products() {
    use half::bf16;
    let k = 64;
    let make =
        |seed, count| -> Vec<bf16> { reals(seed, count).into_iter().map(bf16::from_f32).collect() };
    let (x, y) = (make(6, 64 * k), make(7, k * 64));
    let mut host = Host::new();
    host.buffer(&bytes(x.iter().map(|v| v.to_bits().to_le_bytes())));
    host.buffer(&bytes(y.iter().map(|v| v.to_bits().to_le_bytes())));
    let z = host.result(4 * 64 * 64);
    host.pass(&(k as i32).to_le_bytes());
    let report = host.launch("gemm", 1, 128, 0);
    let conflicts = report
        .statistics
        .accesses
        .iter()
        .find(|a| a.wavefronts > a.minimum_wavefronts);
    assert!(conflicts.is_none(), "{conflicts:?}");
    let z = host.floats(z, 64 * 64);
    for i in 0..64 {
        for j in 0..64 {
            let expected: f64 = (0..k)
                .map(|l| f64::from(x[i * k + l]) * f64::from(y[l * 64 + j]))
                .sum();
            close(f64::from(z[i * 64 + j]), expected, 1e-4, "gemm");
        }
    }
}

#[test]
fn products_of_integers_and_tf32() {
    let small = |seed| -> Vec<i8> { noise(seed).map(|u| u as i8).take(512).collect() };
    let (a, b) = (small(8), small(9));
    let (p, q) = (reals(10, 128), reals(11, 64));
    let mut host = Host::new();
    host.buffer(&bytes(a.iter().map(|v| v.to_le_bytes())));
    host.buffer(&bytes(b[..256].iter().map(|v| v.to_le_bytes())));
    let c = host.result(4 * 128);
    host.buffer(&bytes(p.iter().map(|v| v.to_le_bytes())));
    host.buffer(&bytes(q.iter().map(|v| v.to_le_bytes())));
    let r = host.result(4 * 128);
    host.launch("products", 1, 32, 0);
    let (c, r) = (host.ints(c, 128), host.floats(r, 128));
    // Rounds to 10 bits of mantissa, ties away from zero.
    let tf32 = |v: f32| f64::from(f32::from_bits((v.to_bits() + 0x1000) & !0x1fff));
    for i in 0..16 {
        for j in 0..8 {
            let exact: i32 = (0..32)
                .map(|l| i32::from(a[i * 32 + l]) * i32::from(b[j * 32 + l]))
                .sum();
            assert_eq!(c[i * 8 + j], exact);
            let sum: f64 = (0..8)
                .map(|l| tf32(p[i * 8 + l]) * tf32(q[j * 8 + l]))
                .sum();
            close(f64::from(r[i * 8 + j]), sum + 1.0, 1e-6, "tf32");
        }
    }
}

#[test]
fn divergence() {
    let x: Vec<i32> = noise(12).map(|u| (u % 97) as i32 + 1).take(96).collect();
    let mut host = Host::new();
    host.buffer(&bytes(x.iter().map(|v| v.to_le_bytes())));
    let y = host.buffer(&[0; 4 * 96]);
    host.pass(&90i32.to_le_bytes());
    let report = host.launch("divergence", 1, 96, 0);
    assert!(report.statistics.divergent_branches > 50);
    let one = |mut v: i32| {
        let mut steps = 0;
        while v != 1 {
            if v % 2 != 0 {
                steps += (0..v % 3).sum::<i32>();
                v = 3 * v + 1;
            } else {
                v /= 2;
                if v == 8 {
                    steps += 1000;
                    break;
                }
            }
            steps += 1;
            if steps > 90 {
                return 0;
            }
        }
        steps
    };
    let expected: Vec<i32> = x.iter().map(|v| one(*v)).collect();
    assert_eq!(host.ints(y, 96), expected);
}

#[test]
fn lanes_that_wait_for_each_other() {
    let mut host = Host::new();
    host.buffer(&[0; 4]);
    let y = host.buffer(&[0; 4]);
    host.launch("lock", 1, 20, 0);
    assert_eq!(host.ints(y, 1), [(1 << 20) - 1]);
}

#[test]
fn a_loop_without_end_is_given_up() {
    let text = ".version 9.0 .target sm_90 .address_size 64 .visible .entry f() { $L: bra $L; }";
    let module = Module::parse(text).expect("it is read");
    let mut memory = Memory::new(0);
    let shape = Launch {
        grid: [1, 1, 1],
        block: [32, 1, 1],
        dynamic_shared: 0,
        params: &[],
    };
    let options = Options {
        max_instructions: 100_000,
        ..Options::default()
    };
    let outcome = launch(&module, "f", &mut memory, &shape, &options);
    assert!(
        matches!(outcome, Err(LaunchError::Runaway { .. })),
        "{outcome:?}"
    );
}
