//! Programs on the ranks of an MPI job, in which each process is one device.
//!
//! All ranks read the same program and the same inputs, and compile the program of a device. Each
//! rank takes its own parts of the inputs, and each has the whole results at the end.

use crate::{Error, ErrorKind, Executable, SpmdExecutable, Tensor};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tegula_devices::mpi::{Job, Patience};
use tegula_ir::Literal;

/// An MPI job that this process takes part in.
pub struct MpiJob {
    job: Arc<Job>,
}

impl MpiJob {
    /// Joins the job that `mpirun` has started; only once in a process. In each exchange, a rank
    /// waits for others up to `wait`, and reports missing ranks before `deadline`.
    ///
    /// # Errors
    /// There is no usable MPI library.
    pub fn join(wait: Duration, deadline: Option<Instant>) -> Result<Self, Error> {
        let job = Job::join(Patience { wait, deadline });
        let job = job.map_err(|message| Error::new(ErrorKind::Unsupported, message))?;
        Ok(Self { job: Arc::new(job) })
    }

    /// The rank of this process.
    pub fn rank(&self) -> usize {
        self.job.rank()
    }

    /// The number of processes, each of which is a device.
    pub fn size(&self) -> usize {
        self.job.size()
    }

    /// Checks that all ranks have the same program, inputs and options, which `parts` contains as
    /// bytes.
    ///
    /// # Errors
    /// The ranks whose parts differ from those of rank 0.
    pub fn agree(&self, parts: &[&[u8]]) -> Result<(), Error> {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let agreed = self.job.agree(hasher.finalize().as_bytes());
        agreed.map_err(|message| Error::new(ErrorKind::Input, message))
    }

    /// Runs a program that was compiled for as many devices as there are ranks, `times` times.
    /// Inputs and results are whole arrays.
    ///
    /// # Errors
    /// As [`Executable::run`]; a missing rank, by number.
    pub fn run(
        &self,
        executable: &Executable,
        inputs: &[Tensor],
        step_limit: Option<u64>,
        times: u32,
    ) -> Result<Vec<Tensor>, Error> {
        let spmd = executable.backend().downcast_ref::<SpmdExecutable>();
        let Some(spmd) = spmd else {
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            return executable.run(inputs);
        };
        let groupings = spmd.groupings()?;
        let communicator = self.job.communicator(spmd.topology, &groupings);
        let communicator = communicator.map_err(|message| Error::new(ErrorKind::Limit, message))?;
        let inputs: Vec<Literal> = inputs.iter().map(|input| input.literal().clone()).collect();
        let mut results = Vec::new();
        for _ in 0..times.max(1) {
            results = spmd.run_as(&communicator, &inputs, step_limit)?;
        }
        Ok(results.into_iter().map(Tensor::from).collect())
    }

    /// Leaves the job, when all ranks do.
    ///
    /// # Errors
    /// Other ranks did not leave in time.
    pub fn finish(&self) -> Result<(), Error> {
        let finished = self.job.finish();
        finished.map_err(|message| Error::new(ErrorKind::Limit, message))
    }

    /// Ends this process if it could not join a job, because a thread may hang inside the MPI
    /// library.
    pub fn leave(code: u8) -> ! {
        tegula_devices::mpi::leave(i32::from(code.max(1)))
    }

    /// Ends the whole job, and this process with this exit status.
    pub fn abort(&self, code: u8) -> ! {
        self.job.abort(i32::from(code.max(1)))
    }
}
