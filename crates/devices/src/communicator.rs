//! The interface by which a running program exchanges arrays with the other devices.

use crate::topology::Topology;
use std::sync::Arc;
use std::time::Duration;
use tegula_ir::Literal;

/// A collective operation, from the view of one device.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The instruction's name, for messages.
    pub name: &'a str,
    /// The instruction's number in its module, which is the same on all devices. The n-th exchange
    /// of an instruction by one member is matched with the n-th by the others.
    pub site: usize,
    /// The numbers of the devices that take part, in the operation's order.
    pub members: &'a [usize],
}

/// Combines the arrays of all members to a result that all of them want; [`None`] if that fails.
pub type Combine<'c> = dyn FnMut(&[Arc<[Literal]>]) -> Option<Arc<[Literal]>> + 'c;

/// The arrays that a device sends in an exchange.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// The same arrays for all members.
    ToAll(Vec<Literal>),
    /// Arrays for each member, by position. All members send arrays of the same shapes to each
    /// other.
    Parts(Vec<Vec<Literal>>),
    /// The arrays of the first member, for all. The other members' arrays only state the shapes.
    FromFirst(Vec<Literal>),
    /// The arrays of one member for some members, by position.
    Permuted {
        /// The arrays.
        arrays: Vec<Literal>,
        /// The member whose arrays this device receives, if any.
        source: Option<usize>,
        /// The members that receive this device's arrays.
        targets: Vec<usize>,
    },
}

/// The result of an exchange that was begun.
pub trait Pending: Send {
    /// Waits for the arrays for this device: those of every member, by position; with
    /// [`Outgoing::FromFirst`] those of the first member only; with [`Outgoing::Permuted`] those of
    /// the source, if there is one.
    ///
    /// # Errors
    /// As [`Communicator::exchange`].
    fn wait(self: Box<Self>) -> Result<Vec<Arc<[Literal]>>, ExchangeError>;
}

/// A result that exists already.
#[derive(Debug)]
pub struct Arrived(pub Vec<Arc<[Literal]>>);

impl Pending for Arrived {
    fn wait(self: Box<Self>) -> Result<Vec<Arc<[Literal]>>, ExchangeError> {
        Ok(self.0)
    }
}

/// Exchanges arrays with the other devices of a run.
pub trait Communicator: Send + Sync {
    /// The numbers of replicas and partitions.
    fn topology(&self) -> Topology;

    /// The number of this device.
    fn device(&self) -> usize;

    /// Sends this device's arrays to all members of an exchange, of which it is one, and returns
    /// those of every member, in the order of [`Exchange::members`].
    ///
    /// # Errors
    /// A member does not join: it has failed, ended, or is late.
    fn exchange(
        &self,
        exchange: Exchange<'_>,
        arrays: Vec<Literal>,
    ) -> Result<Vec<Arc<[Literal]>>, ExchangeError>;

    /// Whether arrays are sent rather than shared. If so, an operation that needs only parts of
    /// arrays uses [`begin`](Self::begin), to send no more than that.
    fn sends_bytes(&self) -> bool {
        false
    }

    /// Begins an exchange that may continue while this device computes. Devices that share memory
    /// complete it here.
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

    /// As [`exchange`](Self::exchange), for an exchange in which all members need the same
    /// combination of all arrays. `combine` computes it, on only one of the devices if they share
    /// memory. The result is [`None`] if that failed. `combine` must be elementwise, because it may
    /// be called on one-dimensional pieces of the arrays.
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

/// A communicator for a device of a program that exchanges nothing.
#[derive(Clone, Copy, Debug)]
pub struct WithoutExchange {
    /// The numbers of replicas and partitions.
    pub topology: Topology,
    /// The number of this device.
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

/// The communicator of a single device.
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

/// The reason why an exchange failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// A device failed; the reason is in its own error.
    #[error("device {device} failed")]
    Failed {
        /// The device.
        device: usize,
    },
    /// A member's run ended without this exchange, because devices took different paths through the
    /// program.
    #[error("device {device} ended its run without taking part in `{name}`")]
    Ended {
        /// The device.
        device: usize,
        /// The instruction.
        name: String,
    },
    /// Members did not join in time.
    #[error("`{name}` waited {} s for device {}, which did not take part", .timeout.as_secs_f64(), list(.missing))]
    TimedOut {
        /// The instruction.
        name: String,
        /// The time-out.
        timeout: Duration,
        /// The devices that did not join.
        missing: Vec<usize>,
    },
    /// Communication with the other devices failed.
    #[error("`{name}`: {reason}")]
    Transport {
        /// The instruction.
        name: String,
        /// The library's error message.
        reason: String,
    },
    /// The process of a member is lost, or has ended.
    #[error("`{name}` waits for process {process}, whose connection is lost: {reason}")]
    Lost {
        /// The instruction.
        name: String,
        /// The process.
        process: usize,
        /// What happened to its connection.
        reason: String,
    },
    /// The process of a member runs another program on these devices.
    #[error(
        "`{name}` waits for process {process}, which runs another program: all processes must run \
         the same programs in the same order"
    )]
    OtherProgram {
        /// The instruction.
        name: String,
        /// The process.
        process: usize,
    },
    /// The caller is not a member of the exchange.
    #[error("device {device} calls the exchange `{name}` but is not a member of its group")]
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
