//! Measures the speed of the interpreter: lane instructions per second of one core, for kernels of
//! the tests, with all checks and without any.
//!
//!     cargo run --release -p tegula-sim-ptx --example throughput

use tegula_sim_ptx::{Launch, Memory, Module, Options, launch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let module = Module::parse(include_str!("../tests/programs/programs.ptx"))?;
    println!(
        "{:12} {:>14} {:>14} {:>18}",
        "kernel", "checks", "no checks", "lane-instructions"
    );
    // The name, the blocks, the threads, the bytes of each buffer, the last argument.
    let programs: [(&str, u32, u32, &[u64], i32); 5] = [
        ("softmax", 256, 256, &[4 << 20, 4 << 20], 4096),
        ("functions", 256, 256, &[1 << 18, 1 << 21, 3 << 20], 1 << 16),
        (
            "integers",
            1024,
            256,
            &[1 << 20, 1 << 20, 20 << 20],
            1 << 18,
        ),
        (
            "gemm",
            64,
            128,
            &[64 * 2 * 4096, 64 * 2 * 4096, 1 << 16],
            4096,
        ),
        ("divergence", 256, 256, &[1 << 18, 1 << 18], 90),
    ];
    let only = std::env::args().nth(1);
    for (kernel, grid, block, buffers, n) in programs {
        if only.as_ref().is_some_and(|only| only != kernel) {
            continue;
        }
        let mut speeds = Vec::new();
        let mut lanes = 0;
        for options in [Options::default(), Options::fast()] {
            let mut best = 0.0f64;
            for _ in 0..3 {
                let mut memory = Memory::new(1 << 30);
                let mut params = Vec::new();
                for bytes in buffers {
                    let address = memory.allocate(*bytes)?;
                    let values: Vec<u8> = (0..*bytes / 4)
                        .flat_map(|i| (1 + i as u32 % 97).to_le_bytes())
                        .collect();
                    memory.write(address, &values)?;
                    params.extend(address.to_le_bytes());
                }
                params.extend(n.to_le_bytes());
                let shape = Launch {
                    grid: [grid, 1, 1],
                    block: [block, 1, 1],
                    dynamic_shared: 0,
                    params: &params,
                };
                let start = seconds();
                let report = launch(&module, kernel, &mut memory, &shape, &options)?;
                lanes = report.lane_instructions;
                best = best.max(lanes as f64 / (seconds() - start));
            }
            speeds.push(best);
        }
        println!(
            "{kernel:12} {:>12.2e}/s {:>12.2e}/s {lanes:>18}",
            speeds[0], speeds[1]
        );
    }
    Ok(())
}

/// The CPU time of this thread in seconds, or the elapsed time if the system does not report it.
fn seconds() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ran = told.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    ran.map_or_else(
        || {
            std::time::SystemTime::UNIX_EPOCH
                .elapsed()
                .map_or(0.0, |t| t.as_secs_f64())
        },
        |nanoseconds| nanoseconds / 1e9,
    )
}
