//! `tegula run --mpi` as the ranks of real MPI jobs. If no launcher is installed, each test prints
//! that.

#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const TEGULA: &str = env!("CARGO_BIN_EXE_tegula");

/// Returns the installed launchers, and for each whether it is Open MPI's.
fn launchers() -> Vec<(PathBuf, bool)> {
    let names = match std::env::var_os("TEGULA_MPIRUN") {
        Some(path) => vec![PathBuf::from(path)],
        None => ["mpirun.openmpi", "mpirun.mpich", "mpirun"]
            .map(PathBuf::from)
            .into(),
    };
    let mut found: Vec<(PathBuf, bool)> = Vec::new();
    for path in names {
        let Ok(output) = Command::new(&path).arg("--version").output() else {
            continue;
        };
        let text = String::from_utf8_lossy(&output.stdout).to_lowercase();
        let is_open_mpi = text.contains("open mpi") || text.contains("open-mpi");
        let is_one = is_open_mpi || text.contains("hydra");
        if is_one && found.iter().all(|(_, other)| *other != is_open_mpi) {
            found.push((path, is_open_mpi));
        }
    }
    if found.is_empty() {
        println!("no mpirun of Open MPI or MPICH is installed: nothing is run");
    }
    found
}

fn job((path, is_open_mpi): &(PathBuf, bool), ranks: usize) -> Command {
    let mut command = Command::new(path);
    command
        .args(["-n", &ranks.to_string()])
        .stdin(Stdio::null());
    if *is_open_mpi {
        command.args(["--oversubscribe", "--allow-run-as-root"]);
        command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    }
    command
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn program(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Every collective, on sharded arrays: the results over MPI equal those with threads.
const SHARDED: &str = "HloModule sharded, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[64,32]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}
  w = f32[32,48]{1,0} parameter(1), sharding={devices=[2,2]<=[4]}
  y = f32[64,48]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[48,64]{1,0} transpose(y), dimensions={1,0}, sharding={devices=[4,1]<=[4]}
  zero = f32[] constant(0)
  sum = f32[64]{0} reduce(t, zero), dimensions={0}, to_apply=add, sharding={devices=[4]<=[4]}
  all = f32[] reduce(t, zero), dimensions={0,1}, to_apply=add
  ROOT r = (f32[48,64]{1,0}, f32[64]{0}, f32[]) tuple(t, sum, all)
}
";

/// Each asynchronous pair has work between its start and its done.
const PAIRS: &str = "HloModule pairs, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[24,24]{1,0} parameter(0)
  y = f32[8]{0} parameter(1)
  gs = (f32[8]{0}, f32[32]{0}) all-gather-start(y), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, dimensions={0}
  rs = f32[8]{0} all-reduce-start(y), channel_id=2, replica_groups={{0,2},{1,3}}, use_global_device_ids=true, to_apply=add
  ps = (f32[8]{0}, f32[8]{0}, u32[], u32[]) collective-permute-start(y), channel_id=3, source_target_pairs={{0,1},{1,2},{2,0}}
  p = f32[24,24]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  gd = f32[32]{0} all-gather-done(gs)
  rd = f32[8]{0} all-reduce-done(rs)
  pd = f32[8]{0} collective-permute-done(ps)
  sc = f32[2]{0} reduce-scatter(y), channel_id=4, replica_groups={{0,1,2,3}}, use_global_device_ids=true, dimensions={0}, to_apply=add
  aa = f32[8]{0} all-to-all(y), channel_id=5, replica_groups={{3,1,0,2}}, dimensions={0}
  cb = f32[8]{0} collective-broadcast(y), channel_id=6, replica_groups={{2,0,1,3}}
  ROOT r = (f32[24,24]{1,0}, f32[32]{0}, f32[8]{0}, f32[8]{0}, f32[2]{0}, f32[8]{0}, f32[8]{0}) tuple(p, gd, rd, pd, sc, aa, cb)
}
";

/// Runs for a long time and exchanges data in every iteration.
const LONG: &str = "HloModule long, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

body {
  s = (s32[], f32[256]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[256]{0} get-tuple-element(s), index=1
  sum = f32[256]{0} all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
  quarter = f32[] constant(0.25)
  q = f32[256]{0} broadcast(quarter), dimensions={}
  mean = f32[256]{0} multiply(sum, q)
  ROOT out = (s32[], f32[256]{0}) tuple(next, mean)
}

condition {
  s = (s32[], f32[256]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  many = s32[] constant(100000000)
  ROOT go = pred[] compare(i, many), direction=LT
}

ENTRY e {
  x = f32[256]{0} parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[256]{0}) tuple(zero, x)
  loop = (s32[], f32[256]{0}) while(init), condition=condition, body=body
  ROOT r = f32[256]{0} get-tuple-element(loop), index=1
}
";

#[test]
fn processes_give_what_threads_give() {
    let folder = folder("mpi_same");
    for (name, program_text) in [("sharded.hlo", SHARDED), ("pairs.hlo", PAIRS)] {
        let path = program(&folder, name, program_text);
        for target in ["cpu", "interp"] {
            let threads = folder.join("threads.npz");
            let mut run = Command::new(TEGULA);
            run.arg("run")
                .arg(&path)
                .args(["--target", target, "--devices", "4"]);
            let output = run
                .arg("--outputs")
                .arg(&threads)
                .output()
                .expect("it starts");
            assert!(output.status.success(), "{}", text(&output));
            for launcher in launchers() {
                let processes = folder.join("processes.npz");
                let _ = std::fs::remove_file(&processes);
                let mut run = job(&launcher, 4);
                run.arg(TEGULA)
                    .arg("run")
                    .arg(&path)
                    .args(["--target", target, "--mpi"]);
                run.args(["--wait", "60", "--repeat", "3"]);
                let output = run
                    .arg("--outputs")
                    .arg(&processes)
                    .output()
                    .expect("it starts");
                assert!(output.status.success(), "{launcher:?} {}", text(&output));
                let lines = text(&output);
                assert_eq!(lines.matches("on each of 4 ranks").count(), 1, "{lines}");
                let [a, b] =
                    [&threads, &processes].map(|path| std::fs::read(path).expect("results"));
                assert!(a == b, "{name} {target} {launcher:?}");
            }
        }
    }
}

#[test]
fn another_program_on_a_rank_is_found_before_the_run() {
    let folder = folder("mpi_other");
    let one = program(&folder, "one.hlo", SHARDED);
    let other = program(
        &folder,
        "other.hlo",
        &SHARDED.replace("constant(0)", "constant(1)"),
    );
    for launcher in launchers() {
        let results = folder.join("results.npz");
        let mut run = job(&launcher, 3);
        let rank = |run: &mut Command, path: &Path| {
            run.arg(TEGULA)
                .arg("run")
                .arg(path)
                .args(["--mpi", "--wait", "30", "--outputs"]);
            run.arg(&results);
        };
        rank(&mut run, &one);
        run.args([":", "-n", "1"]);
        rank(&mut run, &other);
        let start = Instant::now();
        let output = run.output().expect("it starts");
        assert!(!output.status.success(), "{}", text(&output));
        assert!(
            text(&output).contains("options of rank 3 differ"),
            "{}",
            text(&output)
        );
        assert!(start.elapsed() < Duration::from_secs(60));
        assert!(!results.exists());
    }
}

#[test]
fn ranks_that_are_not_the_programs_devices_are_an_error() {
    let folder = folder("mpi_count");
    let path = program(&folder, "program.hlo", SHARDED);
    for launcher in launchers() {
        let mut run = job(&launcher, 2);
        run.arg(TEGULA)
            .arg("run")
            .arg(&path)
            .args(["--mpi", "--wait", "30"]);
        let output = run.output().expect("it starts");
        assert!(!output.status.success());
        assert!(
            text(&output).contains('4') && text(&output).contains("devices"),
            "{}",
            text(&output)
        );
    }
}

/// Finds the processes of ranks, by rank. A rank of MPICH has two: the one that the launcher
/// started, and its child, which is the rank itself.
fn ranks_of(program: &Path, behind: bool) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let line = String::from_utf8_lossy(&read("cmdline")).into_owned();
        if !line.starts_with(TEGULA) || !line.contains(&program.display().to_string()) {
            continue;
        }
        let environment = String::from_utf8_lossy(&read("environ")).into_owned();
        let is_behind = environment.contains("TEGULA_RANK_BEHIND=");
        if environment.contains("PMI_RANK=") && is_behind != behind {
            continue;
        }
        let rank = environment.split('\0').find_map(|variable| {
            let (name, value) = variable.split_once('=')?;
            ["OMPI_COMM_WORLD_RANK", "PMI_RANK"]
                .contains(&name)
                .then(|| value.parse().ok())?
        });
        found.extend(rank.map(|rank| (rank, pid)));
    }
    found.sort_unstable();
    found
}

/// Starts a long program on four ranks and sends a signal to one of them.
fn with_a_fault(
    name: &str,
    launcher: &(PathBuf, bool),
    signal: &str,
    behind: bool,
) -> (String, Duration) {
    let folder = folder(name);
    let path = program(&folder, "long.hlo", LONG);
    let results = folder.join("results.npz");
    let _ = std::fs::remove_file(&results);
    let mut run = job(launcher, 4);
    run.arg(TEGULA)
        .arg("run")
        .arg(&path)
        .args(["--mpi", "--wait", "4", "--outputs"]);
    let run = run
        .arg(&results)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let run = run.spawn().expect("it starts");
    let begun = Instant::now();
    let ranks = loop {
        let ranks = ranks_of(&path, behind);
        if ranks.len() == 4 || begun.elapsed() > Duration::from_secs(60) {
            break ranks;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    std::thread::sleep(Duration::from_secs(2));
    let (_, pid) = *ranks
        .iter()
        .find(|(rank, _)| *rank == 2)
        .expect("rank 2 runs");
    let start = Instant::now();
    let sent = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(sent.is_ok_and(|status| status.success()));
    let output = run.wait_with_output().expect("it ends");
    let took = start.elapsed();
    let _ = Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .stderr(Stdio::null())
        .status();
    assert!(!output.status.success(), "{}", text(&output));
    assert!(!results.exists(), "a job that lost a rank has results");
    (text(&output), took)
}

#[test]
fn a_rank_that_is_killed_ends_the_job() {
    for launcher in launchers() {
        for behind in [true, false] {
            let (output, took) = with_a_fault("mpi_killed", &launcher, "-KILL", behind);
            assert!(took < Duration::from_secs(20), "{took:?}");
            let named = output.contains("rank 2") && !output.contains("rank 1 ");
            assert!(named, "{launcher:?}: {output}");
        }
    }
}

#[test]
fn a_rank_that_hangs_is_named_after_the_timeout() {
    for launcher in launchers() {
        let (output, took) = with_a_fault("mpi_hangs", &launcher, "-STOP", true);
        assert!(took < Duration::from_secs(30), "{took:?}");
        assert!(output.contains("for device 2"), "{launcher:?}: {output}");
    }
}

#[test]
fn without_a_library_the_error_says_what_to_install() {
    let folder = folder("mpi_none");
    let path = program(&folder, "program.hlo", SHARDED);
    let mut run = Command::new(TEGULA);
    run.arg("run")
        .arg(&path)
        .arg("--mpi")
        .env("TEGULA_MPI", "/nowhere/libmpi.so");
    let output = run.output().expect("it starts");
    assert!(!output.status.success());
    let message = text(&output);
    assert!(message.contains("install Open MPI or MPICH"), "{message}");
    for wrong in ["0", "-1", "nan", "inf"] {
        let mut run = Command::new(TEGULA);
        run.arg("run")
            .arg(&path)
            .args(["--mpi", &format!("--wait={wrong}")]);
        let output = run.output().expect("it starts");
        assert!(
            !output.status.success() && text(&output).contains("positive"),
            "{wrong}"
        );
    }
}
