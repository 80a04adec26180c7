//! The interface by which a running program exchanges arrays with the other devices.

use crate::topology::Topology;
use std::sync::Arc;
use std::time::Duration;
use tegula_ir::Literal;

/// One collective operation, as a device meets it.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The instruction's name, for messages.
    pub name: &'a str,
    /// The instruction's number in its module: the same on all devices. The n-th exchange of an
    /// instruction by one member meets the n-th by the others.
    pub site: usize,
    /// Numbers of the devices that take part, in the operation's order.
    pub members: &'a [usize],
}

/// Makes of the arrays of all members what all of them want; [`None`]: it failed.
pub type Combine<'c> = dyn FnMut(&[Arc<[Literal]>]) -> Option<Arc<[Literal]>> + 'c;

/// What a device gives to the members of an exchange.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// The same arrays to all members.
    ToAll(Vec<Literal>),
    /// By position: arrays for each member. All members give arrays of the same shapes to all.
    Parts(Vec<Vec<Literal>>),
    /// The arrays of the first member to all; others give theirs for the shapes.
    FromFirst(Vec<Literal>),
    /// Arrays to some members, from one: positions.
    Permuted {
        /// The arrays.
        arrays: Vec<Literal>,
        /// Whose arrays this device gets, if anyone's.
        source: Option<usize>,
        /// Who gets this device's.
        targets: Vec<usize>,
    },
}

/// What comes of an exchange that was begun.
pub trait Pending: Send {
    /// Waits for the arrays: those of every member, by position, for this device; of
    /// [`Outgoing::FromFirst`] those of the first alone, of [`Outgoing::Permuted`] those of the
    /// source, if there is one.
    ///
    /// # Errors
    /// As [`Communicator::exchange`].
    fn wait(self: Box<Self>) -> Result<Vec<Arc<[Literal]>>, ExchangeError>;
}

/// Arrays that are there already.
#[derive(Debug)]
pub struct Arrived(pub Vec<Arc<[Literal]>>);

impl Pending for Arrived {
    fn wait(self: Box<Self>) -> Result<Vec<Arc<[Literal]>>, ExchangeError> {
        Ok(self.0)
    }
}

/// Exchanges arrays with the other devices of a run.
pub trait Communicator: Send + Sync {
    /// How many devices there are.
    fn topology(&self) -> Topology;

    /// The number of this device.
    fn device(&self) -> usize;

    /// Gives this device's arrays to all members of an exchange, of which it is one, and returns
    /// those of every member, in the order of [`Exchange::members`].
    ///
    /// # Errors
    /// If a member does not join: it has failed, ended, or is not there in time.
    fn exchange(
        &self,
        exchange: Exchange<'_>,
        arrays: Vec<Literal>,
    ) -> Result<Vec<Arc<[Literal]>>, ExchangeError>;

    /// Whether arrays are sent and not shared: then who needs a part of them asks for no more, by
    /// [`begin`](Self::begin).
    fn sends_bytes(&self) -> bool {
        false
    }

    /// Begins an exchange that may go on while this device computes. Devices that share memory do all
    /// of it here.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange).
    fn begin(
        &self,
        exchange: Exchange<'_>,
        outgoing: Outgoing,
    ) -> Result<Box<dyn Pending>, ExchangeError> {
        let own = self.device();
        let own = exchange.members.iter().position(|&member| member == own);
        let arrived = match outgoing {
            Outgoing::ToAll(arrays) => self.exchange(exchange, arrays)?,
            Outgoing::Parts(parts) => {
                let each = parts.first().map_or(0, Vec::len);
                let all = self.exchange(exchange, parts.into_iter().flatten().collect())?;
                let first = own.unwrap_or(0) * each;
                let own = all.iter().map(|all| {
                    let part = all.get(first..first + each).unwrap_or_default();
                    Arc::from(part)
                });
                own.collect()
            }
            Outgoing::FromFirst(arrays) => {
                let mut all = self.exchange(exchange, arrays)?;
                all.truncate(1);
                all
            }
            Outgoing::Permuted { arrays, source, .. } => {
                let all = self.exchange(exchange, arrays)?;
                let source = source.and_then(|source| all.get(source).cloned());
                source.into_iter().collect()
            }
        };
        Ok(Box::new(Arrived(arrived)))
    }

    /// As [`exchange`](Self::exchange), where all members want the same of what they give: `combine`
    /// makes it, on one of them if they share memory. [`None`] of it says that it failed there. It works
    /// element by element, so that it may be given pieces of the arrays, of one dimension.
    ///
    /// # Errors
    /// As `exchange`; another member failed to combine.
    fn exchange_combined(
        &self,
        exchange: Exchange<'_>,
        arrays: Vec<Literal>,
        combine: &mut Combine<'_>,
    ) -> Result<Option<Arc<[Literal]>>, ExchangeError> {
        Ok(combine(&self.exchange(exchange, arrays)?))
    }
}

/// A device of a program that exchanges nothing.
#[derive(Clone, Copy, Debug)]
pub struct WithoutExchange {
    /// How many devices there are.
    pub topology: Topology,
    /// Which one it is.
    pub device: usize,
}

impl Communicator for WithoutExchange {
    fn topology(&self) -> Topology {
        self.topology
    }

    fn device(&self) -> usize {
        self.device
    }

    fn exchange(
        &self,
        exchange: Exchange<'_>,
        _: Vec<Literal>,
    ) -> Result<Vec<Arc<[Literal]>>, ExchangeError> {
        Err(ExchangeError::NoMember {
            device: self.device,
            name: exchange.name.to_owned(),
        })
    }
}

/// The way of a device to itself, where there is no other.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Communicator for Alone {
    fn topology(&self) -> Topology {
        Topology::ALONE
    }

    fn device(&self) -> usize {
        0
    }

    fn exchange(
        &self,
        exchange: Exchange<'_>,
        arrays: Vec<Literal>,
    ) -> Result<Vec<Arc<[Literal]>>, ExchangeError> {
        match exchange.members {
            [0] => Ok(vec![arrays.into()]),
            _ => Err(ExchangeError::NoMember {
                device: 0,
                name: exchange.name.to_owned(),
            }),
        }
    }
}

/// Why an exchange failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// A device failed; its own error says why.
    #[error("device {device} failed")]
    Failed {
        /// Which device.
        device: usize,
    },
    /// A member's run ended without this exchange: devices took different ways through the program.
    #[error("device {device} ended its run without taking part in `{name}`")]
    Ended {
        /// Which device.
        device: usize,
        /// The instruction.
        name: String,
    },
    /// Members did not join in time.
    #[error("`{name}` waited {} s for device {}", .timeout.as_secs_f64(), list(.missing))]
    TimedOut {
        /// The instruction.
        name: String,
        /// The time-out.
        timeout: Duration,
        /// The devices that did not come.
        missing: Vec<usize>,
    },
    /// The way to the other devices failed.
    #[error("`{name}`: {reason}")]
    Transport {
        /// The instruction.
        name: String,
        /// What the library says.
        reason: String,
    },
    /// The caller is no member of the exchange.
    #[error("device {device} is no member of the exchange `{name}`")]
    NoMember {
        /// The caller.
        device: usize,
        /// The instruction.
        name: String,
    },
}

fn list(devices: &[usize]) -> String {
    let names: Vec<String> = devices.iter().map(usize::to_string).collect();
    names.join(", ")
}
