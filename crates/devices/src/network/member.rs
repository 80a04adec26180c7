//! The devices of this process in a run of several processes.

use super::Run;
use super::connection::Frame;
use super::mailbox::{Awaited, Parcel, Site, Way};
use crate::communicator::{Combine, Communicator, Exchange, ExchangeError, Outgoing, Pending};
use crate::run;
use crate::topology::Topology;
use crate::wire::{Visits, exchange_pieces, hash_of, shapes_of};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tegula_ir::{ArrayShape, Literal};

/// The number of bytes up to which an array that all members combine is sent whole to all of them,
/// because one step with more bytes is faster than two with fewer: what a network of 10 Gbit/s
/// sends in a round trip of 50 us.
const ONE_STEP: usize = 1 << 16;

/// The devices of this process in a run. When nothing of it is left, the run is forgotten.
pub(super) struct Job {
    run: Run,
    topology: Topology,
    timeout: Duration,
    /// The number of devices of this process whose runs have not ended, and the one that failed
    /// first.
    left: Mutex<(usize, Option<usize>)>,
}

impl Job {
    pub(super) fn new(run: Run, topology: Topology, timeout: Duration) -> Self {
        Self {
            left: Mutex::new((run.own().len(), None)),
            run,
            topology,
            timeout,
        }
    }
}

impl run::Job for Job {
    fn communicator(self: Arc<Self>, device: usize) -> Arc<dyn Communicator> {
        Arc::new(Member {
            job: self,
            device,
            visits: Visits::default(),
        })
    }

    fn end(&self, device: usize, ok: bool) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.0 = left.0.saturating_sub(1);
        if !ok {
            left.1.get_or_insert(device);
            // Others must not wait until this process's other devices have ended.
            let first = self.run.links.mailbox.fail(self.run.id, device);
            self.run.tell(Some(first));
        }
        if left.0 == 0 {
            self.run.tell(None);
        }
    }

    fn failed(&self) -> Option<usize> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// The communicator of one device.
struct Member {
    job: Arc<Job>,
    device: usize,
    visits: Visits,
}

impl Member {
    /// The identity of an exchange.
    fn site(&self, exchange: Exchange<'_>) -> Result<Site, ExchangeError> {
        if !exchange.members.contains(&self.device) {
            return Err(ExchangeError::NoMember {
                device: self.device,
                name: exchange.name.to_owned(),
            });
        }
        Ok(Site {
            run: self.job.run.id,
            instruction: exchange.site as u64,
            members: hash_of(exchange.members),
            visit: self.visits.count(exchange),
        })
    }

    /// Sends the same arrays to devices of this and of other processes; to each of those processes
    /// once.
    fn send(&self, site: Site, arrays: Vec<Literal>, to: &[usize]) {
        let run = &self.job.run;
        let mut others: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut here: Vec<Way> = Vec::new();
        for &device in to {
            let process = run.processes.get(device).copied();
            let process = process.unwrap_or(run.process);
            if process == run.process {
                here.push((self.device, device));
                continue;
            }
            match others.iter_mut().find(|(other, _)| *other == process) {
                Some((_, devices)) => devices.push(device),
                None => others.push((process, vec![device])),
            }
        }
        for (process, to) in others {
            let parcel = Frame::Parcel {
                site,
                program: run.program,
                from: self.device,
                to: &to,
                arrays: &arrays,
            };
            run.links.send(process, &parcel);
        }
        if !here.is_empty() {
            let arrays: Parcel = arrays.into();
            let parcels = here.into_iter();
            let parcels = parcels.map(|way| (way, Arc::clone(&arrays)));
            run.links.mailbox.put(site, parcels);
        }
    }
}

impl Communicator for Member {
    fn topology(&self) -> Topology {
        self.job.topology
    }

    fn device(&self) -> usize {
        self.device
    }

    fn sends_bytes(&self) -> bool {
        true
    }

    fn exchange(
        &self,
        exchange: Exchange<'_>,
        arrays: Vec<Literal>,
    ) -> Result<Vec<Arc<[Literal]>>, ExchangeError> {
        self.begin(exchange, Outgoing::ToAll(arrays))?.wait()
    }

    fn begin(
        &self,
        exchange: Exchange<'_>,
        outgoing: Outgoing,
    ) -> Result<Box<dyn Pending>, ExchangeError> {
        let site = self.site(exchange)?;
        let members = exchange.members;
        let (shapes, from) = match outgoing {
            Outgoing::ToAll(arrays) => {
                let shapes = shapes_of(&arrays);
                self.send(site, arrays, members);
                (shapes, members.to_vec())
            }
            Outgoing::Parts(parts) => {
                let shapes = parts.first().map(|part| shapes_of(part));
                for (part, &member) in parts.into_iter().zip(members) {
                    self.send(site, part, &[member]);
                }
                (shapes.unwrap_or_default(), members.to_vec())
            }
            Outgoing::FromFirst(arrays) => {
                let shapes = shapes_of(&arrays);
                let first = members.first().copied();
                if first == Some(self.device) {
                    self.send(site, arrays, members);
                }
                (shapes, first.into_iter().collect())
            }
            Outgoing::Permuted {
                arrays,
                source,
                targets,
            } => {
                let shapes = shapes_of(&arrays);
                let member = |position: usize| members.get(position).copied();
                let targets: Vec<usize> = targets.into_iter().filter_map(member).collect();
                self.send(site, arrays, &targets);
                (shapes, source.and_then(member).into_iter().collect())
            }
        };
        Ok(Box::new(Incoming {
            job: Arc::clone(&self.job),
            name: exchange.name.to_owned(),
            site,
            from,
            to: self.device,
            shapes,
        }))
    }

    fn exchange_combined(
        &self,
        exchange: Exchange<'_>,
        arrays: Vec<Literal>,
        combine: &mut Combine<'_>,
    ) -> Result<Option<Arc<[Literal]>>, ExchangeError> {
        let bytes: usize = arrays.iter().map(|array| array.bytes().len()).sum();
        if bytes <= ONE_STEP {
            return Ok(combine(&self.exchange(exchange, arrays)?));
        }
        exchange_pieces(self, exchange, &arrays, combine)
    }
}

/// The arrays that other devices send in an exchange.
struct Incoming {
    job: Arc<Job>,
    name: String,
    site: Site,
    from: Vec<usize>,
    to: usize,
    shapes: Vec<ArrayShape>,
}

impl Pending for Incoming {
    fn wait(self: Box<Self>) -> Result<Vec<Arc<[Literal]>>, ExchangeError> {
        let run = &self.job.run;
        let parcels = run.links.mailbox.take(&Awaited {
            name: &self.name,
            site: self.site,
            from: &self.from,
            to: self.to,
            program: run.program,
            processes: &run.processes,
            timeout: self.job.timeout,
        })?;
        parcels.iter().map(|parcel| self.arrays(parcel)).collect()
    }
}

impl Incoming {
    /// The arrays of a parcel with their shapes. Bytes are not copied.
    fn arrays(&self, parcel: &Parcel) -> Result<Arc<[Literal]>, ExchangeError> {
        let same = |(array, shape): (&Literal, &ArrayShape)| array.shape() == shape;
        if parcel.len() == self.shapes.len() && parcel.iter().zip(&self.shapes).all(same) {
            return Ok(Arc::clone(parcel));
        }
        let wrong = |reason: String| ExchangeError::Transport {
            name: self.name.clone(),
            reason: format!(
                "the received arrays do not have the expected shapes ({reason}): do all \
                 devices run the same program?"
            ),
        };
        if parcel.len() != self.shapes.len() {
            let (given, expected) = (parcel.len(), self.shapes.len());
            return Err(wrong(format!("{given} arrays, expected {expected}")));
        }
        let arrays = parcel.iter().zip(&self.shapes).map(|(array, shape)| {
            let array = array.clone().reinterpret(shape);
            array.map_err(|error| wrong(error.to_string()))
        });
        Ok(arrays.collect::<Result<Vec<_>, _>>()?.into())
    }
}
