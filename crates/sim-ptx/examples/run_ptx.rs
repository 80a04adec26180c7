//! Runs a kernel of a PTX file and prints the findings.
//!
//!     cargo run --release -p tegula-sim-ptx --example run_ptx -- \
//!         FILE.ptx KERNEL --grid 4,1,1 --block 256,1,1 f32:1024 zeros:4096 i32=1024
//!
//! The kernel's arguments are, in order: `f32:N`, `u32:N` (buffers of N numbers 0, 1, 2, ... modulo
//! 97), `zeros:BYTES`, `empty:BYTES` (uninitialised), and the values `i32=V`, `i64=V`, `f32=V`.
//! `--shared BYTES` is the size of dynamic shared memory; `--show I` prints the beginning of buffer
//! I afterwards.

use tegula_sim_ptx::{Launch, Memory, Module, Options, launch};

type Failure = Box<dyn std::error::Error>;

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let (Some(path), Some(kernel)) = (words.next(), words.next()) else {
        return Err(
            "usage: run_ptx FILE.ptx KERNEL [--grid X,Y,Z] [--block X,Y,Z] ARGUMENTS".into(),
        );
    };
    let module =
        Module::parse(&std::fs::read_to_string(&path)?).map_err(|e| format!("{path}: {e}"))?;
    let mut memory = Memory::new(1 << 34);
    let (mut grid, mut block, mut shared, mut show) = ([1; 3], [32, 1, 1], 0, None);
    let (mut params, mut buffers) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--grid" => grid = three(&value()?)?,
            "--block" => block = three(&value()?)?,
            "--shared" => shared = value()?.parse()?,
            "--show" => show = Some(value()?.parse::<usize>()?),
            _ => argument(&word, &mut memory, &mut params, &mut buffers)?,
        }
    }
    let shape = Launch {
        grid,
        block,
        dynamic_shared: shared,
        params: &params,
    };
    let report = launch(&module, &kernel, &mut memory, &shape, &Options::default())?;
    for finding in &report.findings {
        println!("{finding}");
    }
    println!(
        "{} findings, {} warp instructions, {} barriers, {} divergent branches",
        report.findings.len(),
        report.instructions,
        report.statistics.barriers,
        report.statistics.divergent_branches
    );
    println!(
        "{:>8} {:>6} {:>10} {:>12} {:>12} {:>12}",
        "space", "line", "requests", "bytes", "sectors", "wavefronts"
    );
    for a in &report.statistics.accesses {
        println!(
            "{:>8} {:>6} {:>10} {:>12} {:>6}/{:<6} {:>6}/{:<6} {}",
            a.space,
            a.location.line,
            a.requests,
            a.bytes,
            a.sectors,
            a.minimum_sectors,
            a.wavefronts,
            a.minimum_wavefronts,
            a.location
        );
    }
    if let Some(&(address, bytes)) = show.and_then(|i| buffers.get(i)) {
        let mut start = vec![0; bytes.min(64)];
        memory.read(address, &mut start)?;
        let words = start
            .chunks_exact(4)
            .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
        for word in words {
            println!("{word:#010x} {word} {}", f32::from_bits(word));
        }
    }
    Ok(())
}

fn three(text: &str) -> Result<[u32; 3], Failure> {
    let mut sizes = [1; 3];
    for (size, part) in sizes.iter_mut().zip(text.split(',')) {
        *size = part.parse()?;
    }
    Ok(sizes)
}

/// Appends an argument, aligned to its size. A buffer is allocated and filled first.
fn argument(
    word: &str,
    memory: &mut Memory,
    params: &mut Vec<u8>,
    buffers: &mut Vec<(u64, usize)>,
) -> Result<(), Failure> {
    let bytes = if let Some((kind, value)) = word.split_once('=') {
        match kind {
            "i32" => value.parse::<i32>()?.to_le_bytes().to_vec(),
            "i64" => value.parse::<i64>()?.to_le_bytes().to_vec(),
            "f32" => value.parse::<f32>()?.to_le_bytes().to_vec(),
            _ => return Err(format!("`{word}`: i32, i64 or f32").into()),
        }
    } else if let Some((kind, count)) = word.split_once(':') {
        let count: usize = count.parse()?;
        let numbers = (0..count as u32).map(|i| i % 97);
        let content: Vec<u8> = match kind {
            "f32" => numbers.flat_map(|i| (i as f32).to_le_bytes()).collect(),
            "u32" => numbers.flat_map(u32::to_le_bytes).collect(),
            "zeros" => vec![0; count],
            "empty" => Vec::new(),
            _ => return Err(format!("`{word}`: f32, u32, zeros or empty").into()),
        };
        let size = if kind == "empty" {
            count
        } else {
            content.len()
        };
        let address = memory.allocate(size as u64)?;
        memory.write(address, &content)?;
        buffers.push((address, size));
        address.to_le_bytes().to_vec()
    } else {
        return Err(format!("`{word}` is no argument").into());
    };
    params.resize(params.len().next_multiple_of(bytes.len()), 0);
    params.extend(bytes);
    Ok(())
}
