//! A rank in a process of its own behind the one that MPICH's launcher started.
//!
//! When a process of a job is killed, Hydra ends the others at once and names the first that it
//! collects, which may be one of those. So the process that it starts waits for another, which is the
//! rank: whichever of the two is killed, the other one is left to say so. (Open MPI's launcher names the
//! rank itself.)

use crate::terminal::output::complain;
use std::io::Read;
use std::os::unix::process::{ExitStatusExt, parent_id};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Says to a process that it is the rank, and which process started the first one.
const BEHIND: &str = "TEGULA_RANK_BEHIND";
/// How long the file stays that says that a lost rank was named.
const NAMED: Duration = Duration::from_secs(2);

/// The rank's number, if MPICH's launcher started this process.
fn rank() -> Option<String> {
    std::env::var("PMI_RANK").ok()
}

/// Waits for the rank, if this process is to stay before it; gives its exit code.
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
        // It ends when this process does.
        .stdin(Stdio::piped());
    let mut started = command.spawn().ok()?;
    // `wait` would close it.
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

/// Ends this process when the one before it is gone, and says so if that is the first of the job.
fn watch(number: String, launcher: &str) {
    let mark: PathBuf = std::env::temp_dir().join(format!("tegula-rank-{launcher}"));
    let watch = move || {
        let mut byte = [0];
        // Nobody writes: this returns at the end.
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
