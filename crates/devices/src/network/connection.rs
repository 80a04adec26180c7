//! Connections: how processes find each other, and what they send.
//!
//! Each process listens at an address that it writes to the directory, connects to the processes
//! with lower numbers, and accepts those with higher ones. A connection begins with [`Greeting`];
//! frames follow ([`Frame`]): a kind, numbers of 64 bits (little-endian), and the bytes of arrays.

use super::mailbox::{Parcel, RunId, Site};
use super::{Directory, Links, NetworkError, Place};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tegula_ir::{ArrayShape, ElementType, Literal};

/// The first bytes of a connection.
const MAGIC: &[u8; 8] = b"tegula-1";
/// The time between attempts to connect.
const PAUSE: Duration = Duration::from_millis(20);
/// The time that a greeting may take once it is connected.
const GREETING: Duration = Duration::from_secs(5);
/// The time that a process may take to read what it is sent before it counts as lost.
const STALLED: Duration = Duration::from_secs(600);
/// The maximum number of receivers, and of arrays, in a frame.
const MOST_NUMBERS: u64 = 1 << 20;
/// The number of bytes up to which what is sent together is copied to be one packet.
const SHORT: usize = 1 << 12;

/// A secret number of a process, which those that connect to it know from the directory.
type Token = [u8; 32];

/// A process's entry in the directory.
struct Entry {
    version: String,
    devices: usize,
    address: SocketAddr,
    token: Token,
}

impl Entry {
    fn write(&self) -> String {
        let token: String = self
            .token
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let (version, devices, address) = (&self.version, self.devices, self.address);
        format!("{devices} {address} {token} {version}")
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        let devices = words.next()?.parse().ok()?;
        let address = words.next()?.parse().ok()?;
        let digits = words.next()?.as_bytes();
        let mut token = Token::default();
        let mut pairs = digits.chunks_exact(2);
        for byte in &mut token {
            let pair = std::str::from_utf8(pairs.next()?).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self {
            version: words.next()?.to_owned(),
            devices,
            address,
            token,
        })
    }
}

/// The connections of a process.
pub(super) struct Connected {
    /// The number of devices of each process.
    pub(super) devices: Vec<usize>,
    /// The connection to each other process.
    pub(super) streams: Vec<Option<TcpStream>>,
}

/// Connects this process to all others.
pub(super) fn connect(place: &Place, directory: &dyn Directory) -> Result<Connected, NetworkError> {
    let deadline = Instant::now() + place.timeout;
    let own = place.process;
    let listen = |error: io::Error| NetworkError::Listen {
        address: place.address,
        reason: error.to_string(),
    };
    let listener = TcpListener::bind((place.address, 0)).map_err(listen)?;
    let mut token = Token::default();
    getrandom::fill(&mut token).map_err(|error| listen(io::Error::other(error.to_string())))?;
    let entry = Entry {
        version: place.version.clone(),
        devices: place.devices,
        address: listener.local_addr().map_err(listen)?,
        token,
    };
    let key = |process: usize| format!("{}/{process}", place.key);
    let directory_failed = |process, reason| NetworkError::Directory { process, reason };
    let put = directory.put(&key(own), &entry.write());
    put.map_err(|reason| directory_failed(own, reason))?;
    let mut devices = Vec::new();
    let mut streams = Vec::new();
    for process in 0..place.processes {
        if process == own {
            devices.push(place.devices);
            streams.push(None);
            continue;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let text = directory.get(&key(process), left);
        let text = text.map_err(|reason| directory_failed(process, reason))?;
        let other = Entry::read(&text).ok_or_else(|| {
            let reason = "it cannot be read: does it run another version?".to_owned();
            directory_failed(process, reason)
        })?;
        if other.version != place.version {
            return Err(NetworkError::Version {
                process,
                other: other.version,
                own: place.version.clone(),
            });
        }
        devices.push(other.devices);
        streams.push(match process < own {
            true => Some(call(process, own, &other, deadline)?),
            false => None,
        });
    }
    accept(&listener, place, &token, deadline, &mut streams).map_err(listen)?;
    let missing = streams.iter().enumerate();
    let missing = missing.filter(|(process, stream)| *process != own && stream.is_none());
    let missing: Vec<usize> = missing.map(|(process, _)| process).collect();
    match missing.is_empty() {
        true => Ok(Connected { devices, streams }),
        false => Err(NetworkError::Missing {
            missing,
            timeout: place.timeout,
        }),
    }
}

/// Connects to a process that is in the directory.
fn call(
    process: usize,
    own: usize,
    other: &Entry,
    deadline: Instant,
) -> Result<TcpStream, NetworkError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let tried = TcpStream::connect_timeout(&other.address, left.max(PAUSE));
        let tried = tried.and_then(|mut stream| {
            stream.set_nodelay(true)?;
            stream.write_all(MAGIC)?;
            stream.write_all(&other.token)?;
            stream.write_all(&(own as u64).to_le_bytes())?;
            Ok(stream)
        });
        match tried {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() >= deadline => {
                return Err(NetworkError::Unreachable {
                    process,
                    address: other.address.to_string(),
                    reason: error.to_string(),
                });
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Accepts the processes with higher numbers. Others that connect are sent away.
fn accept(
    listener: &TcpListener,
    place: &Place,
    token: &Token,
    deadline: Instant,
    streams: &mut [Option<TcpStream>],
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let first = place.process + 1;
    while streams.iter().skip(first).any(Option::is_none) && Instant::now() < deadline {
        match listener.accept() {
            Ok((stream, _)) => {
                let Ok((process, stream)) = greeted(stream, token) else {
                    continue;
                };
                if process >= first
                    && let Some(slot) = streams.get_mut(process)
                {
                    *slot = Some(stream);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads the greeting of a process: its number.
fn greeted(mut stream: TcpStream, token: &Token) -> io::Result<(usize, TcpStream)> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(GREETING))?;
    let mut magic = [0; MAGIC.len()];
    stream.read_exact(&mut magic)?;
    let mut given = Token::default();
    stream.read_exact(&mut given)?;
    if magic != *MAGIC || given != *token {
        return Err(invalid("a stranger"));
    }
    let mut number = [0; 8];
    stream.read_exact(&mut number)?;
    stream.set_read_timeout(None)?;
    let process = usize::try_from(u64::from_le_bytes(number));
    Ok((process.map_err(|_| invalid("a number"))?, stream))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What processes send each other.
pub(super) enum Frame<'a> {
    /// Arrays of a device for some devices of the other process.
    Parcel {
        site: Site,
        program: u64,
        from: usize,
        to: &'a [usize],
        arrays: &'a [Literal],
    },
    /// The process has ended its part of a run, with the device that failed first, if one did.
    Ended { run: RunId, failed: Option<usize> },
    /// The process sends nothing more.
    Leaving,
}

const PARCEL: u64 = 1;
const ENDED: u64 = 2;
const LEAVING: u64 = 3;
/// A number in the place of a device that did not fail.
const NONE: u64 = u64::MAX;

impl Frame<'_> {
    /// The numbers before the bytes.
    fn numbers(&self) -> Vec<u64> {
        match *self {
            Self::Parcel {
                site,
                program,
                from,
                to,
                arrays,
            } => {
                let mut numbers = vec![
                    PARCEL,
                    site.run.group,
                    site.run.number,
                    site.instruction,
                    site.members,
                    site.visit,
                    program,
                    from as u64,
                    to.len() as u64,
                    arrays.len() as u64,
                ];
                numbers.extend(to.iter().map(|&device| device as u64));
                numbers.extend(arrays.iter().map(|array| array.bytes().len() as u64));
                numbers
            }
            Self::Ended { run, failed } => {
                let failed = failed.map_or(NONE, |device| device as u64);
                vec![ENDED, run.group, run.number, failed]
            }
            Self::Leaving => vec![LEAVING],
        }
    }

    fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        let mut head: Vec<u8> = Vec::new();
        for number in self.numbers() {
            head.extend(number.to_le_bytes());
        }
        let arrays = match self {
            Self::Parcel { arrays, .. } => *arrays,
            _ => &[],
        };
        // Short frames are one packet.
        let mut pending = head;
        for array in arrays {
            let bytes = array.bytes();
            if pending.len() + bytes.len() <= SHORT {
                pending.extend_from_slice(bytes);
                continue;
            }
            stream.write_all(&pending)?;
            pending.clear();
            stream.write_all(bytes)?;
        }
        stream.write_all(&pending)
    }
}

/// The writing ends of the connections.
pub(super) struct Peers {
    writers: Vec<Option<Mutex<TcpStream>>>,
}

impl Peers {
    pub(super) fn new(streams: &[Option<TcpStream>]) -> Self {
        let writer = |stream: &Option<TcpStream>| {
            let stream = stream.as_ref()?.try_clone().ok()?;
            stream.set_write_timeout(Some(STALLED)).ok()?;
            Some(Mutex::new(stream))
        };
        Self {
            writers: streams.iter().map(writer).collect(),
        }
    }

    /// Sends a frame to a process.
    pub(super) fn send(&self, process: usize, frame: &Frame<'_>) -> io::Result<()> {
        let writer = self.writers.get(process).and_then(Option::as_ref);
        let writer =
            writer.ok_or_else(|| invalid("this process has no connection to the receiver"))?;
        let mut stream = writer.lock().unwrap_or_else(PoisonError::into_inner);
        frame.write(&mut *stream)
    }

    /// Tells all processes that nothing more will be sent. What they still send is received until
    /// they leave, so that no connection is reset before its data was read.
    pub(super) fn leave(&self) {
        for writer in self.writers.iter().flatten() {
            let mut stream = writer.lock().unwrap_or_else(PoisonError::into_inner);
            // A process that has left already does not listen.
            let _ = Frame::Leaving.write(&mut *stream);
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
    }
}

/// Starts a thread that puts what a process sends into the mailbox.
///
/// # Errors
/// No thread can be started.
pub(super) fn receive(process: usize, stream: TcpStream, links: &Arc<Links>) -> io::Result<()> {
    let links = Arc::clone(links);
    let thread = std::thread::Builder::new().name(format!("tegula-process-{process}"));
    thread.spawn(move || {
        let mut stream = io::BufReader::new(stream);
        let reason = loop {
            match receive_one(process, &mut stream, &links) {
                Ok(true) => {}
                Ok(false) => break "the process has ended".to_owned(),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    break "the connection was closed; the process ended or was killed".to_owned();
                }
                Err(error) => break error.to_string(),
            }
        };
        links.mailbox.lose(process, reason);
    })?;
    Ok(())
}

/// Receives a frame; false if it is the last.
fn receive_one(process: usize, stream: &mut impl Read, links: &Links) -> io::Result<bool> {
    match number(stream)? {
        PARCEL => {
            let run = run(stream)?;
            let site = Site {
                run,
                instruction: number(stream)?,
                members: number(stream)?,
                visit: number(stream)?,
            };
            let program = number(stream)?;
            let from = device(number(stream)?)?;
            let (receivers, count) = (number(stream)?, number(stream)?);
            if receivers.max(count) > MOST_NUMBERS {
                return Err(invalid(
                    "received a frame with too many arrays or receivers",
                ));
            }
            let to = (0..receivers).map(|_| device(number(stream)?));
            let to: Vec<usize> = to.collect::<io::Result<_>>()?;
            let lengths = (0..count).map(|_| number(stream));
            let lengths: Vec<u64> = lengths.collect::<io::Result<_>>()?;
            let arrays = lengths.into_iter().map(|length| array(stream, length));
            let parcel: Parcel = arrays.collect::<io::Result<Vec<_>>>()?.into();
            let parcels = to.into_iter().map(|to| ((from, to), Arc::clone(&parcel)));
            links.mailbox.receive((process, program), site, parcels);
        }
        ENDED => {
            let run = run(stream)?;
            match number(stream)? {
                NONE => {}
                failed => {
                    links.mailbox.fail(run, device(failed)?);
                }
            }
            links.mailbox.other_ended(run, process);
        }
        LEAVING => return Ok(false),
        _ => return Err(invalid("received a frame of an unknown kind")),
    }
    Ok(true)
}

fn number(stream: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn run(stream: &mut impl Read) -> io::Result<RunId> {
    Ok(RunId {
        group: number(stream)?,
        number: number(stream)?,
    })
}

fn device(number: u64) -> io::Result<usize> {
    usize::try_from(number).map_err(|_| invalid("received a device number that is too large"))
}

/// An array of this many bytes.
fn array(stream: &mut impl Read, length: u64) -> io::Result<Literal> {
    let length =
        i64::try_from(length).map_err(|_| invalid("received an array that is too large"))?;
    let shape = ArrayShape::new(ElementType::U8, &[length]);
    let mut array = Literal::zeros(&shape).map_err(|error| invalid(&error.to_string()))?;
    stream.read_exact(array.bytes_mut())?;
    Ok(array)
}
