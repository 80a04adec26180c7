//! Runs a rank of an MPICH job in a child process of the process that the launcher started.
//!
//! When one process of a job is killed, Hydra (MPICH's launcher) kills the others at once and
//! reports the first dead process that it finds, which may be one of those others. Therefore the
//! process that Hydra starts only waits for a child process, and the child is the rank: if either
//! is killed, the other reports which rank was lost. (Open MPI's launcher reports the right rank
//! itself.)

use crate::terminal::output::complain;
use std::io::Read;
use std::os::unix::process::{ExitStatusExt, parent_id};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The environment variable that tells a process that it is the child, with the launcher's process
/// id.
const BEHIND: &str = "TEGULA_RANK_BEHIND";
/// How long the file exists that marks that a lost rank has been reported.
const NAMED: Duration = Duration::from_secs(2);

/// Returns the rank's number if MPICH's launcher started this process.
fn rank() -> Option<String> {
    std::env::var("PMI_RANK").ok()
}

/// Starts the child process and returns its exit code, unless this process is itself the rank.
pub(super) fn wait_for_rank() -> Option<u8> {
    let number = rank()?;
    if let Some(launcher) = std::env::var_os(BEHIND) {
        watch(number, &launcher.to_string_lossy());
        return None;
    }
    let own = std::env::current_exe().ok()?;
    let mut command = Command::new(own);
    command
        .args(std::env::args_os().skip(1))
        .env(BEHIND, parent_id().to_string())
        // The child reads end-of-file, and ends, when this process dies.
        .stdin(Stdio::piped());
    let mut started = command.spawn().ok()?;
    // Takes the pipe out of `started`, because `wait` would close it.
    let held = started.stdin.take();
    let status = started.wait().ok()?;
    drop(held);
    match (status.code(), status.signal()) {
        (Some(code), _) => Some(u8::try_from(code).unwrap_or(1)),
        (None, signal) => {
            let signal = signal.unwrap_or(9);
            complain(format_args!(
                "rank {number} was ended by signal {signal} (process {})",
                started.id()
            ));
            Some(u8::try_from(128 + signal).unwrap_or(1))
        }
    }
}

/// Ends this process when its parent dies. If no other rank of the job has done so, it first
/// reports the lost rank.
fn watch(number: String, launcher: &str) {
    let mark: PathBuf = std::env::temp_dir().join(format!("tegula-rank-{launcher}"));
    let watch = move || {
        let mut byte = [0];
        // Nothing is ever written to the pipe: this returns when the parent dies.
        let _ = std::io::stdin().read(&mut byte);
        let first = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&mark)
            .is_ok();
        if first {
            complain(format_args!(
                "rank {number} is lost: the process that the launcher started was killed"
            ));
            std::thread::sleep(NAMED);
            let _ = std::fs::remove_file(&mark);
        }
        std::process::exit(137);
    };
    let _ = std::thread::Builder::new()
        .name("watch".to_owned())
        .spawn(watch);
}
