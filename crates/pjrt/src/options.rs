//! Compile options, from a protocol buffer.
//!
//! The fields of `xla.CompileOptionsProto` that are used, by number: 3 the build options (4
//! replicas, 5 partitions, 9 device assignment, 12 for which results and 18 for which parameters
//! the sharding may be chosen), 4 whether the executable runs on any device, 7 options by name.

use crate::error::{Code, Error};
use crate::protobuf::{Field, Message};
use tegula::Topology;

/// The options or a part of them, as a message.
fn message(bytes: &[u8]) -> Message<'_> {
    Message {
        name: "xla.CompileOptionsProto",
        bytes,
    }
}

/// The options of an executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompileOptions {
    pub(crate) replicas: i64,
    pub(crate) partitions: i64,
    /// The devices, by replica and then by partition; empty if not stated.
    pub(crate) devices: Vec<i64>,
    /// Whether the executable runs on the device that each execution names.
    pub(crate) portable: bool,
    /// For each parameter, or in one entry for all: whether it may be partitioned if the program
    /// does not state its sharding.
    pub(crate) free_parameters: Vec<bool>,
    /// For each result, or in one entry for all: whether it may be partitioned if the program does
    /// not state its sharding.
    pub(crate) free_results: Vec<bool>,
}

impl CompileOptions {
    /// # Errors
    /// Bytes that are not such a message; an unknown option by name.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut options = Self {
            replicas: 1,
            partitions: 1,
            devices: Vec::new(),
            portable: false,
            free_parameters: Vec::new(),
            free_results: Vec::new(),
        };
        for field in message(bytes).fields() {
            match field? {
                (3, Field::Bytes(build)) => options.read_build(build)?,
                (4, Field::Number(portable)) => options.portable = portable != 0,
                (7, Field::Bytes(entry)) => check_override(entry)?,
                _ => {}
            }
        }
        Ok(options)
    }

    /// The numbers of replicas and partitions of an execution.
    ///
    /// # Errors
    /// Numbers that are not positive.
    pub(crate) fn topology(&self) -> Result<Topology, Error> {
        let count = |count: i64| usize::try_from(count).ok().filter(|count| *count > 0);
        match (count(self.replicas), count(self.partitions)) {
            (Some(replicas), Some(partitions)) => Ok(Topology {
                replicas,
                partitions,
            }),
            _ => {
                let (replicas, partitions) = (self.replicas, self.partitions);
                let message = format!(
                    "expected positive numbers, found {replicas} replicas of {partitions} partitions"
                );
                Err(Error::invalid(message))
            }
        }
    }

    fn read_build(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for field in message(bytes).fields() {
            match field? {
                (4, Field::Number(replicas)) => self.replicas = replicas as i64,
                (5, Field::Number(partitions)) => self.partitions = partitions as i64,
                (9, Field::Bytes(assignment)) => self.read_assignment(assignment)?,
                _ => {}
            }
        }
        let flags = |field| -> Result<Vec<bool>, Error> {
            Ok(message(bytes)
                .numbers(field)?
                .into_iter()
                .map(|flag| flag != 0)
                .collect())
        };
        self.free_results = flags(12)?;
        self.free_parameters = flags(18)?;
        Ok(())
    }

    /// Reads an `xla.DeviceAssignmentProto`: field 1 is the number of replicas, 2 that of
    /// computations, 3 has a message for each computation, whose field 1 is the devices of its
    /// replicas.
    fn read_assignment(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut computations: Vec<Vec<i64>> = Vec::new();
        for field in message(bytes).fields() {
            if let (3, Field::Bytes(computation)) = field? {
                computations.push(message(computation).numbers(1)?);
            }
        }
        let replicas = computations.first().map_or(0, Vec::len);
        let by_replica = |replica: usize| {
            let devices = computations.iter();
            devices.filter_map(move |devices| devices.get(replica).copied())
        };
        self.devices = (0..replicas).flat_map(by_replica).collect();
        Ok(())
    }
}

/// The Boolean options of XLA (`xla/xla.proto`, `DebugOptions`) that users commonly set.
const SWITCHES: [&str; 8] = [
    "xla_embed_ir_in_executable",
    "xla_cpu_enable_fast_math",
    "xla_cpu_enable_fast_min_max",
    "xla_cpu_enable_concurrency_optimized_scheduler",
    "xla_dump_hlo_as_text",
    "xla_dump_hlo_as_proto",
    "xla_dump_hlo_as_html",
    "xla_dump_hlo_as_dot",
];

/// Checks an option by name. XLA's options are for another compiler and ignored, but a value that
/// XLA would refuse is an error. Others are errors, because they would be expected to have an effect.
///
/// An entry has the name (1) and an `xla.OptionOverrideProto` (2), whose field 1 is a string.
fn check_override(entry: &[u8]) -> Result<(), Error> {
    let mut name = String::new();
    let mut text = None;
    for field in message(entry).fields() {
        match field? {
            (1, Field::Bytes(bytes)) => name = String::from_utf8_lossy(bytes).into_owned(),
            (2, Field::Bytes(value)) => {
                for field in message(value).fields() {
                    if let (1, Field::Bytes(bytes)) = field? {
                        text = Some(String::from_utf8_lossy(bytes).into_owned());
                    }
                }
            }
            _ => {}
        }
    }
    let problem = match text {
        _ if !name.starts_with("xla_") => format!("No such compile option: '{name}'"),
        Some(text)
            if SWITCHES.contains(&&*name)
                && !matches!(&*text.to_ascii_lowercase(), "true" | "false") =>
        {
            format!("While setting option {name}, '{text}' is not a valid bool value.")
        }
        _ => return Ok(()),
    };
    Err(Error::new(Code::InvalidArgument, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_jax_sends_is_read() {
        // One replica of two partitions on devices 3 and 1, with the first parameter free;
        // portable; and an option of XLA's.
        let assignment = [8, 1, 16, 2, 26, 3, 10, 1, 3, 26, 3, 10, 1, 1];
        let mut build = vec![32, 1, 40, 2, 74, assignment.len() as u8];
        build.extend(assignment);
        build.extend([0x92, 1, 2, 1, 0]);
        let mut message = vec![26, build.len() as u8];
        message.extend(build);
        message.extend([32, 1, 58, 7, 10, 5]);
        message.extend(b"xla_a");
        let options = CompileOptions::read(&message).expect("valid");
        let expected = CompileOptions {
            replicas: 1,
            partitions: 2,
            devices: vec![3, 1],
            portable: true,
            free_parameters: vec![true, false],
            free_results: Vec::new(),
        };
        assert_eq!(options, expected);
        for len in 0..message.len() {
            // Truncated messages give an error or options, never a panic.
            let _ = CompileOptions::read(&message[..len]);
        }
        assert!(CompileOptions::read(&[58, 5, 10, 3, b'b', b'a', b'd']).is_err());
        let switch = |value: &str| {
            let mut given = vec![10, value.len() as u8];
            given.extend(value.as_bytes());
            let mut entry = vec![10, 20];
            entry.extend(b"xla_dump_hlo_as_text");
            entry.extend([18, given.len() as u8]);
            entry.extend(given);
            let mut message = vec![58, entry.len() as u8];
            message.extend(entry);
            CompileOptions::read(&message)
        };
        assert!(switch("True").is_ok());
        assert!(switch("perhaps").is_err());
        assert!(CompileOptions::read(&[0xff; 11]).is_err());
    }
}
