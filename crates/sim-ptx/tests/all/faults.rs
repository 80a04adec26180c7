//! Seeded faults: each kernel of `programs/faults.cu` has one, which must be found, and a twin
//! without the fault, which must have no findings.

use tegula_sim_ptx::{FindingKind, Launch, Memory, Module, Options, Report, launch};

const PTX: &str = include_str!("../programs/faults.ptx");

/// Runs a kernel with buffers of the given sizes, and then `n` if the kernel has such a parameter.
fn run(
    kernel: &str,
    grid: u32,
    block: [u32; 3],
    buffers: &[u64],
    n: Option<u32>,
) -> (Report, Memory, Vec<u64>) {
    let module = Module::parse(PTX).expect("the module is read");
    let mut memory = Memory::new(1 << 20);
    let mut params = Vec::new();
    let mut addresses = Vec::new();
    for (index, bytes) in buffers.iter().enumerate() {
        let address = memory.allocate(*bytes).expect("room");
        let values: Vec<u8> = (0..bytes / 4)
            .flat_map(|i| ((index == 0) as u32 * (i as u32 * 7 % 61)).to_le_bytes())
            .collect();
        memory.write(address, &values).expect("in bounds");
        params.extend(address.to_le_bytes());
        addresses.push(address);
    }
    params.extend(n.unwrap_or(0).to_le_bytes());
    let shape = Launch {
        grid: [grid, 1, 1],
        block,
        dynamic_shared: 0,
        params: &params,
    };
    let report =
        launch(&module, kernel, &mut memory, &shape, &Options::default()).expect("it runs");
    (report, memory, addresses)
}

/// Checks that the kernel has findings of `kind` at a line of its source, and its twin none. The
/// only other findings allowed are reads of uninitialised memory by a thread that came too early.
fn seeded(
    kernel: &str,
    kind: FindingKind,
    grid: u32,
    block: [u32; 3],
    buffers: &[u64],
    n: Option<u32>,
) -> Report {
    let (mut report, ..) = run(kernel, grid, block, buffers, n);
    assert!(!report.findings.is_empty(), "{kernel}: nothing was found");
    for finding in report
        .findings
        .iter()
        .filter(|f| f.kind.is_error() || !kind.is_error())
    {
        let early = kind == FindingKind::Race && finding.kind == FindingKind::UninitialisedShared;
        assert!(finding.kind == kind || early, "{kernel}: {finding}");
        let source = finding.location.source.as_ref().expect("a source line");
        assert!(
            source.0.ends_with("faults.cu") && finding.location.line > 0,
            "{kernel}: {finding}"
        );
    }
    report.findings.sort_by_key(|f| f.kind != kind);
    assert_eq!(report.findings[0].kind, kind, "{kernel}");
    let twin = format!("{kernel}_twin");
    let (clean, ..) = run(&twin, grid, block, buffers, n);
    assert!(clean.findings.is_empty(), "{twin}: {}", clean.findings[0]);
    assert!(clean.instructions > 0);
    report
}

const LINE: [u32; 3] = [256, 1, 1];
const KIB: u64 = 1024;

#[test]
fn races() {
    let report = seeded(
        "missing_barrier",
        FindingKind::Race,
        1,
        LINE,
        &[KIB, KIB],
        None,
    );
    let finding = &report.findings[0];
    assert_eq!(finding.threads.len(), 2);
    assert_eq!(
        finding.threads[0][0] + finding.threads[1][0],
        255,
        "{finding}"
    );
    assert!(finding.other.is_some() && finding.message.contains("__syncthreads()"));
    seeded(
        "missing_second_barrier",
        FindingKind::Race,
        1,
        LINE,
        &[KIB, KIB],
        None,
    );
    seeded(
        "missing_syncwarp",
        FindingKind::Race,
        1,
        [32, 1, 1],
        &[128, 128],
        None,
    );
    seeded("histogram", FindingKind::Race, 1, LINE, &[KIB, 128], None);
}

#[test]
fn races_of_halves_and_pipelines() {
    seeded("narrow", FindingKind::Race, 1, LINE, &[KIB, KIB], None);
    seeded(
        "lower_halves",
        FindingKind::Race,
        1,
        LINE,
        &[KIB, KIB],
        None,
    );
    seeded("pipeline", FindingKind::Race, 1, LINE, &[KIB, KIB], None);
}

/// The host writes the first two thirds of the second buffer.
#[test]
fn uninitialised_global() {
    for (kernel, findings) in [("unwritten", 1), ("unwritten_twin", 0)] {
        let module = Module::parse(PTX).expect("the module is read");
        let mut memory = Memory::new(1 << 20);
        let x = memory.allocate(KIB).expect("room");
        let y = memory.allocate(3 * KIB).expect("room");
        memory.write(x, &[0; 1024]).expect("in bounds");
        memory.write(y, &[0; 2048]).expect("in bounds");
        let params: Vec<u8> = [x, y].iter().flat_map(|a| a.to_le_bytes()).collect();
        let shape = Launch {
            grid: [1; 3],
            block: LINE,
            dynamic_shared: 0,
            params: &params,
        };
        let report =
            launch(&module, kernel, &mut memory, &shape, &Options::default()).expect("it runs");
        assert_eq!(report.findings.len(), findings, "{kernel}");
        if let Some(finding) = report.findings.first() {
            assert_eq!(finding.kind, FindingKind::UninitialisedGlobal);
            assert!(
                finding
                    .message
                    .contains("byte 2048 of the allocation of 3072"),
                "{finding}"
            );
        }
    }
}

#[test]
fn races_between_blocks() {
    let report = seeded(
        "block_race",
        FindingKind::Race,
        4,
        [32, 1, 1],
        &[KIB, KIB],
        None,
    );
    assert!(
        report.findings[0].message.contains("of block"),
        "{}",
        report.findings[0]
    );
    seeded(
        "last_block",
        FindingKind::Race,
        8,
        [32, 1, 1],
        &[KIB, KIB, KIB, KIB],
        None,
    );
}

#[test]
fn shuffle_masks() {
    let report = seeded(
        "shuffle_mask",
        FindingKind::WarpMask,
        1,
        [32, 1, 1],
        &[128, 128],
        None,
    );
    assert!(
        report.findings[0].message.contains("0xffff0000"),
        "{}",
        report.findings[0]
    );
}

#[test]
fn bounds() {
    let report = seeded(
        "off_by_one",
        FindingKind::OutOfBounds,
        4,
        [32, 1, 1],
        &[400, 400],
        Some(100),
    );
    assert!(
        report.findings[0]
            .message
            .contains("4 bytes past the end of an allocation of 400 bytes")
    );
    assert_eq!(report.findings[0].block, [3, 0, 0]);
    assert_eq!(report.findings[0].threads, [[4, 0, 0]]);
    seeded(
        "misaligned",
        FindingKind::Misaligned,
        1,
        [32, 1, 1],
        &[2 * KIB, KIB],
        None,
    );
}

#[test]
fn slow_accesses() {
    let report = seeded(
        "transpose",
        FindingKind::BankConflict,
        1,
        [32, 8, 1],
        &[4 * KIB, 4 * KIB],
        None,
    );
    assert!(
        report.findings[0].message.starts_with("32.0 wavefronts"),
        "{}",
        report.findings[0]
    );
    let worst = report
        .statistics
        .accesses
        .iter()
        .map(|a| a.wavefronts)
        .max();
    assert_eq!(
        worst,
        Some(32 * 8),
        "8 warps with one request of each unrolled load, or 4 in a loop"
    );
    let report = seeded(
        "half_sectors",
        FindingKind::PartialSectors,
        1,
        [32, 1, 1],
        &[KIB, KIB],
        None,
    );
    let load = &report.statistics.accesses[0];
    assert_eq!(
        (
            load.requests,
            load.bytes,
            load.sectors,
            load.minimum_sectors
        ),
        (1, 128, 8, 4)
    );
}

#[test]
fn uninitialised() {
    let report = seeded(
        "uninitialised_shared",
        FindingKind::UninitialisedShared,
        1,
        LINE,
        &[KIB, KIB],
        None,
    );
    assert_eq!(report.findings[0].threads, [[76, 0, 0]]);
    seeded(
        "pending_copy",
        FindingKind::UninitialisedShared,
        1,
        LINE,
        &[KIB, KIB],
        None,
    );
}

#[test]
fn barriers() {
    seeded(
        "divergent_barrier",
        FindingKind::BarrierDivergence,
        1,
        LINE,
        &[KIB],
        None,
    );
    seeded(
        "exited_warps",
        FindingKind::BarrierDivergence,
        1,
        LINE,
        &[KIB, KIB],
        Some(100),
    );
    let report = seeded("deadlock", FindingKind::Deadlock, 1, LINE, &[KIB], None);
    assert!(
        report.findings[0].message.contains("barrier 2"),
        "{}",
        report.findings[0]
    );
}

#[test]
fn traps() {
    seeded(
        "assertion",
        FindingKind::Trap,
        1,
        [32, 1, 1],
        &[KIB, KIB],
        Some(7),
    );
    let (report, ..) = run("assertion_twin", 1, [32, 1, 1], &[KIB, KIB], Some(1));
    assert_eq!(report.findings[0].kind, FindingKind::Trap);
}

#[test]
fn results_of_the_twins() {
    let (_, memory, at) = run("missing_barrier_twin", 1, LINE, &[KIB, KIB], None);
    let (mut x, mut y) = ([0; 1024], [0; 1024]);
    memory.read(at[0], &mut x).expect("in bounds");
    memory.read(at[1], &mut y).expect("in bounds");
    for i in 0..256 {
        assert_eq!(y[4 * i..4 * i + 4], x[4 * (255 - i)..4 * (256 - i)]);
    }
    let (_, memory, at) = run("transpose_twin", 1, [32, 8, 1], &[4 * KIB, 4 * KIB], None);
    let (mut x, mut y) = ([0; 4096], [0; 4096]);
    memory.read(at[0], &mut x).expect("in bounds");
    memory.read(at[1], &mut y).expect("in bounds");
    for i in 0..1024 {
        let j = i % 32 * 32 + i / 32;
        assert_eq!(y[4 * i..4 * i + 4], x[4 * j..4 * j + 4]);
    }
}

/// A kernel, its blocks, their threads, its buffers, its count, and the text of the line with the
/// fault.
type Fault = (
    &'static str,
    u32,
    [u32; 3],
    &'static [u64],
    Option<u32>,
    &'static str,
);

/// Findings name the line of the source that has the fault.
#[test]
fn findings_name_the_line() {
    let source = include_str!("../programs/faults.cu");
    let cases: [Fault; 6] = [
        (
            "missing_barrier",
            1,
            LINE,
            &[KIB, KIB],
            None,
            "= s[N - 1 - threadIdx.x]",
        ),
        (
            "shuffle_mask",
            1,
            [32, 1, 1],
            &[128, 128],
            None,
            "__shfl_xor_sync(0xffffffffu",
        ),
        (
            "off_by_one",
            4,
            [32, 1, 1],
            &[400, 400],
            Some(100),
            "i <= n",
        ),
        (
            "transpose",
            1,
            [32, 8, 1],
            &[4 * KIB, 4 * KIB],
            None,
            "= s[threadIdx.x][i]",
        ),
        (
            "half_sectors",
            1,
            LINE,
            &[2 * KIB, KIB],
            None,
            "x[2 * threadIdx.x]",
        ),
        (
            "uninitialised_shared",
            1,
            LINE,
            &[KIB, KIB],
            None,
            "s[(threadIdx.x + 1) % N]",
        ),
    ];
    for (kernel, grid, block, buffers, n, fault) in cases {
        let (report, ..) = run(kernel, grid, block, buffers, n);
        let named = report.findings.iter().any(|finding| {
            let line = finding
                .location
                .source
                .as_ref()
                .map_or(0, |(_, line)| *line);
            let text = source.lines().nth(line.saturating_sub(1) as usize);
            text.is_some_and(|text| text.contains(fault))
        });
        assert!(named, "{kernel}: `{fault}` is not in {:?}", report.findings);
    }
}
