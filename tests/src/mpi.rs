//! The MPI launchers of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A launcher: `mpirun` of one implementation.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// Its file.
    pub path: PathBuf,
    /// Whether it is Open MPI's.
    pub is_open_mpi: bool,
    /// The MPI library to use with it; `None` for the system's.
    pub library: Option<PathBuf>,
}

/// The installed launchers, at most one of Open MPI and one of MPICH: the one in `TEGULA_MPIRUN` if
/// that is set; otherwise Debian's `mpirun.openmpi` and `mpirun.mpich`, and `mpirun`. They use the
/// library in `TEGULA_MPI` if that is set.
pub fn launchers() -> Vec<Launcher> {
    let stated = std::env::var_os("TEGULA_MPIRUN").map(PathBuf::from);
    let library = std::env::var_os("TEGULA_MPI").map(PathBuf::from);
    let names = ["mpirun.openmpi", "mpirun.mpich", "mpirun"].map(PathBuf::from);
    let candidates: Vec<PathBuf> = match stated {
        Some(path) => vec![path],
        None => names.into(),
    };
    let mut found: Vec<Launcher> = Vec::new();
    for path in candidates {
        let Some(is_open_mpi) = kind(&path) else {
            continue;
        };
        if found.iter().all(|other| other.is_open_mpi != is_open_mpi) {
            found.push(Launcher {
                path,
                is_open_mpi,
                library: library.clone(),
            });
        }
    }
    found
}

/// Whether a launcher is Open MPI's; [`None`] if the file is not a launcher.
fn kind(path: &Path) -> Option<bool> {
    let output = Command::new(path).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).to_lowercase();
    let is_open_mpi = text.contains("open mpi") || text.contains("open-mpi");
    (is_open_mpi || text.contains("hydra")).then_some(is_open_mpi)
}

impl Launcher {
    /// A command that starts this many ranks; the caller appends the program and its arguments.
    pub fn command(&self, ranks: usize) -> Command {
        let mut command = Command::new(&self.path);
        command.args(["-n", &ranks.to_string()]);
        if self.is_open_mpi {
            command.args(["--oversubscribe", "--allow-run-as-root"]);
            // All ranks run on this machine and share its cores.
            command.env("OMPI_MCA_mpi_yield_when_idle", "1");
            command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
        }
        if let Some(library) = &self.library {
            command.env("TEGULA_MPI", library);
        }
        command
    }
}
