//! Devices in several processes, on one or several machines, connected by TCP.
//!
//! Each process has some of the devices. Processes find each other by a [`Directory`], a store of
//! keys and values that all of them reach (JAX's coordination service is one), and each pair has one
//! connection (`connection`). A thread for each connection puts arrived arrays into a mailbox, from
//! which the threads of this process's devices take them (`mailbox`). Devices of the same process
//! share arrays through it, without bytes.
//!
//! A run ([`Run`]) belongs to a list of devices. Processes number the runs of each list, so all must
//! begin the runs of a list in the same order, as programs with several controllers do.
//!
//! Sums are made in the order of the group, by pieces that the members add up, so that results do
//! not depend on timing and are those of threads of one process.
//!
//! # Faults
//! When a device fails, or a process ends or is lost, devices that wait for it get an error that
//! names the process. A process that hangs is named after the time-out.
//!
//! # Trust
//! A process proves by a random number from the directory that it belongs to the job. Data is
//! neither encrypted nor authenticated: networks that connect processes must be trusted.

mod connection;
mod mailbox;
mod member;

use crate::communicator::Communicator;
use crate::run::{self, RunError};
use crate::topology::Topology;
use crate::wire::hash_of;
use connection::{Frame, Peers};
use mailbox::{Mailbox, RunId};
use member::Job;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A store of keys and values that all processes of a job can reach.
pub trait Directory {
    /// Stores a value under a key that has none.
    ///
    /// # Errors
    /// The store's message.
    fn put(&self, key: &str, value: &str) -> Result<(), String>;

    /// The value of a key, for which this waits up to the time-out.
    ///
    /// # Errors
    /// The store's message; no process has stored a value in time.
    fn get(&self, key: &str, timeout: Duration) -> Result<String, String>;
}

/// This process among those of a job.
#[derive(Clone, Debug)]
pub struct Place {
    /// The number of this process.
    pub process: usize,
    /// The number of processes.
    pub processes: usize,
    /// The number of devices of this process.
    pub devices: usize,
    /// The address of this machine at which the other processes reach this one.
    pub address: IpAddr,
    /// What must be equal in all processes, such as the version of this software.
    pub version: String,
    /// What precedes the keys in the directory.
    pub key: String,
    /// The time in which all processes must have connected.
    pub timeout: Duration,
}

/// The reason why processes could not be connected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// This process cannot be reached by others.
    #[error("this process cannot accept connections at {address}: {reason}")]
    Listen {
        /// The address.
        address: IpAddr,
        /// The operating system's error message.
        reason: String,
    },
    /// The directory failed.
    #[error("the directory has no valid entry for process {process}: {reason}")]
    Directory {
        /// The process whose entry was to be written or read.
        process: usize,
        /// The directory's error message.
        reason: String,
    },
    /// The process has another version of this software.
    #[error(
        "process {process} runs {other}, but this process runs {own}: all must run the same version"
    )]
    Version {
        /// The process.
        process: usize,
        /// Its version.
        other: String,
        /// The version of this process.
        own: String,
    },
    /// A connection to the process cannot be made.
    #[error("process {process} at {address} cannot be reached: {reason}")]
    Unreachable {
        /// The process.
        process: usize,
        /// The address that it stated.
        address: String,
        /// The operating system's error message.
        reason: String,
    },
    /// Processes did not connect to this one in time.
    #[error("process {} did not connect within {} s", list(.missing), .timeout.as_secs())]
    Missing {
        /// The processes.
        missing: Vec<usize>,
        /// The time-out.
        timeout: Duration,
    },
}

fn list(numbers: &[usize]) -> String {
    let names: Vec<String> = numbers.iter().map(usize::to_string).collect();
    names.join(", ")
}

/// The connections to all other processes of a job.
pub struct Network {
    process: usize,
    /// The number of devices of each process.
    devices: Vec<usize>,
    links: Arc<Links>,
}

/// What a network and its runs share.
struct Links {
    mailbox: Mailbox,
    peers: Peers,
}

impl Network {
    /// Connects this process to all others, which call this function, too.
    ///
    /// # Errors
    /// A process that is missing, cannot be reached, or has another version.
    pub fn connect(place: &Place, directory: &dyn Directory) -> Result<Self, NetworkError> {
        let connected = connection::connect(place, directory)?;
        let mailbox = Mailbox::new(place.processes);
        let links = Arc::new(Links {
            peers: Peers::new(&connected.streams),
            mailbox,
        });
        for (process, stream) in connected.streams.into_iter().enumerate() {
            if let Some(stream) = stream {
                let received = connection::receive(process, stream, &links);
                received.map_err(|error| NetworkError::Listen {
                    address: place.address,
                    reason: format!("no thread for process {process}: {error}"),
                })?;
            }
        }
        Ok(Self {
            process: place.process,
            devices: connected.devices,
            links,
        })
    }

    /// The number of this process.
    pub fn process(&self) -> usize {
        self.process
    }

    /// The number of devices of each process.
    pub fn devices(&self) -> &[usize] {
        &self.devices
    }

    /// Begins a run of a program on devices of which this process has some. `devices` has, for each
    /// device of the program, its process and its number among all devices of the job. `program`
    /// is a number that runs of different programs do not share.
    pub fn begin(&self, devices: &[(usize, i64)], program: u64) -> Run {
        let group = hash_of(devices);
        Run {
            id: self.links.mailbox.begin(group),
            program,
            process: self.process,
            processes: devices.iter().map(|&(process, _)| process).collect(),
            links: Arc::clone(&self.links),
            has_told: AtomicBool::new(false),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.links.peers.leave();
    }
}

/// A run of a program on devices of several processes.
pub struct Run {
    id: RunId,
    program: u64,
    process: usize,
    /// The process of each device of the program.
    processes: Arc<[usize]>,
    links: Arc<Links>,
    has_told: AtomicBool,
}

impl Run {
    /// The devices of the program that this process has, by their numbers in the program.
    pub fn own(&self) -> Vec<usize> {
        let devices = self.processes.iter().enumerate();
        let own = devices.filter(|(_, process)| **process == self.process);
        own.map(|(device, _)| device).collect()
    }

    /// Runs the program on the devices of this process, each on its own thread. Returns their
    /// results. The other processes call this, too.
    ///
    /// # Errors
    /// The error of the device of this process that failed first.
    pub fn run<T: Send, E: Send>(
        self,
        topology: Topology,
        timeout: Duration,
        program: impl Fn(Arc<dyn Communicator>) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, RunError<E>> {
        let own = self.own();
        let job = Arc::new(Job::new(self, topology, timeout));
        run::run(&job, &own, program)
    }

    /// Ends a run in which devices exchange nothing, so that no process waits for this one.
    pub fn dismiss(self) {
        self.has_told.store(true, Ordering::Relaxed);
    }

    /// Tells the other processes, once, that this one has ended the run, with the device that
    /// failed first if one did.
    fn tell(&self, failed: Option<usize>) {
        if self.has_told.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut others: Vec<usize> = self.processes.to_vec();
        others.sort_unstable();
        others.dedup();
        for process in others.into_iter().filter(|&other| other != self.process) {
            let run = self.id;
            self.links.send(process, &Frame::Ended { run, failed });
        }
    }
}

impl Drop for Run {
    /// The others must not wait for a run that was given up.
    fn drop(&mut self) {
        self.tell(self.own().first().copied());
        self.links.mailbox.end(self.id);
    }
}

impl Links {
    /// Sends a frame. If that fails, the process is lost.
    fn send(&self, process: usize, frame: &Frame<'_>) {
        if let Err(error) = self.peers.send(process, frame) {
            self.mailbox.lose(process, error.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
