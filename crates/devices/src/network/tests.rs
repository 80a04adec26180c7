//! Processes that are threads here: each has its own [`Network`].

use super::*;
use crate::communicator::{Exchange, ExchangeError, Outgoing};
use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::{Condvar, Mutex};
use tegula_ir::{ArrayShape, ElementType, Literal};

const LONG: Duration = Duration::from_secs(20);

/// A directory in memory.
#[derive(Default)]
struct Entries {
    entries: Mutex<HashMap<String, String>>,
    changed: Condvar,
}

impl Directory for Entries {
    fn put(&self, key: &str, value: &str) -> Result<(), String> {
        let mut entries = self.entries.lock().unwrap();
        entries.insert(key.to_owned(), value.to_owned());
        self.changed.notify_all();
        Ok(())
    }

    fn get(&self, key: &str, timeout: Duration) -> Result<String, String> {
        let entries = self.entries.lock().unwrap();
        let waited = self
            .changed
            .wait_timeout_while(entries, timeout, |entries| !entries.contains_key(key));
        let entries = waited.unwrap().0;
        let value = entries.get(key).cloned();
        value.ok_or_else(|| format!("no entry {key}"))
    }
}

fn place(process: usize, devices: &[usize]) -> Place {
    Place {
        process,
        processes: devices.len(),
        devices: devices[process],
        address: Ipv4Addr::LOCALHOST.into(),
        version: "1".to_owned(),
        key: "test".to_owned(),
        timeout: LONG,
    }
}

/// Connects processes with these numbers of devices, and calls a function in each.
fn processes<T: Send>(devices: &[usize], run: impl Fn(Network) -> T + Sync) -> Vec<T> {
    let directory = Entries::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..devices.len())
            .map(|process| {
                let (directory, run) = (&directory, &run);
                scope.spawn(move || {
                    let place = place(process, devices);
                    run(Network::connect(&place, directory).expect("all processes connect"))
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.collect()
    })
}

/// All devices of a network, the one of the last process first.
fn all(network: &Network) -> Vec<(usize, i64)> {
    let processes = network.devices().iter().enumerate();
    let own = processes.flat_map(|(process, &count)| std::iter::repeat_n(process, count));
    let devices = own.zip(0..).collect::<Vec<_>>();
    devices.into_iter().rev().collect()
}

fn topology(devices: usize) -> Topology {
    Topology {
        replicas: 1,
        partitions: devices,
    }
}

/// Runs a program on all devices of a network.
fn run_all<T: Send>(
    network: &Network,
    program: impl Fn(&dyn Communicator) -> Result<T, ExchangeError> + Sync,
) -> Result<Vec<T>, RunError<ExchangeError>> {
    let devices = all(network);
    let run = network.begin(&devices, 1);
    run.run(topology(devices.len()), LONG, |communicator| {
        program(&*communicator)
    })
}

fn ints(literal: &Literal) -> Vec<i32> {
    literal.as_i32s().expect("numbers of 32 bits").to_vec()
}

fn of(numbers: &[i32]) -> Literal {
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
    let shape = ArrayShape::new(ElementType::S32, &[numbers.len() as i64]);
    Literal::from_bytes(&shape, &bytes).expect("sizes fit")
}

fn floats(numbers: &[f32]) -> Literal {
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
    let shape = ArrayShape::new(ElementType::F32, &[numbers.len() as i64]);
    Literal::from_bytes(&shape, &bytes).expect("sizes fit")
}

#[test]
fn arrays_go_to_their_receivers() {
    let given = processes(&[2, 1, 2], |network| {
        run_all(&network, |device| {
            let own = device.device() as i32;
            // The order of the members is that of the results.
            let exchange = Exchange {
                name: "all",
                site: 3,
                members: &[4, 0, 2, 3],
            };
            if own == 1 {
                return Ok(Vec::new());
            }
            let mut numbers = Vec::new();
            for round in 0..3 {
                let to_all = Outgoing::ToAll(vec![of(&[own, round])]);
                let arrived = device.begin(exchange, to_all)?.wait()?;
                numbers.extend(arrived.iter().flat_map(|own| ints(&own[0])));
            }
            let parts = (0..4).map(|place| vec![of(&[10 * own + place])]);
            let parts = Outgoing::Parts(parts.collect());
            let arrived = device.begin(exchange, parts)?.wait()?;
            numbers.extend(arrived.iter().flat_map(|own| ints(&own[0])));
            let first = Outgoing::FromFirst(vec![of(&[own + 100])]);
            let arrived = device.begin(exchange, first)?.wait()?;
            numbers.extend(arrived.iter().flat_map(|own| ints(&own[0])));
            // Each member sends to the one before it; the first receives nothing from the second.
            let place = exchange.members.iter().position(|&m| m == device.device());
            let place = place.expect("a member");
            let permuted = Outgoing::Permuted {
                arrays: vec![of(&[own])],
                source: (1..3).contains(&place).then(|| place + 1),
                targets: (place > 1).then(|| place - 1).into_iter().collect(),
            };
            let arrived = device.begin(exchange, permuted)?.wait()?;
            numbers.extend(arrived.iter().flat_map(|own| ints(&own[0])));
            Ok(numbers)
        })
        .map(|given| (network.process(), given))
    });
    let rounds = [
        4, 0, 0, 0, 2, 0, 3, 0, 4, 1, 0, 1, 2, 1, 3, 1, 4, 2, 0, 2, 2, 2, 3, 2,
    ];
    let expected = |place: i32, from: &[i32]| {
        let mut numbers = rounds.to_vec();
        numbers.extend([4, 0, 2, 3].map(|member| 10 * member + place));
        numbers.push(104);
        numbers.extend(from);
        numbers
    };
    // Device 4 of the program is the first of process 0.
    let wanted = [
        Ok((0, vec![expected(3, &[]), expected(0, &[])])),
        Ok((1, vec![expected(2, &[3])])),
        Ok((2, vec![expected(1, &[2]), Vec::new()])),
    ];
    assert_eq!(given, wanted);
}

#[test]
fn sums_are_those_of_threads() {
    let sum = |device: &dyn Communicator, length: usize| {
        let own = device.device();
        let numbers: Vec<f32> = (0..length)
            .map(|place| 1.0 / (1 + own + place) as f32)
            .collect();
        let array = floats(&numbers);
        let exchange = Exchange {
            name: "sum",
            site: 0,
            members: &[0, 1, 2, 3],
        };
        let mut add = |all: &[Arc<[Literal]>]| {
            let values = all.iter().map(|own| own[0].as_f32s().unwrap());
            let sums = values.map(<[f32]>::to_vec).reduce(|mut sum, next| {
                sum.iter_mut()
                    .zip(next)
                    .for_each(|(sum, next)| *sum += next);
                sum
            })?;
            Some(Arc::from(vec![floats(&sums)]))
        };
        let sum = device.exchange_combined(exchange, vec![array], &mut add)?;
        Ok::<_, ExchangeError>(sum.expect("a sum")[0].bytes().to_vec())
    };
    // Arrays that are sent whole, and arrays that are added piece by piece.
    for length in [0, 1, 7, 1 + (1 << 15)] {
        let threads = crate::run(topology(4), LONG, |device| sum(&*device, length));
        let threads = threads.expect("threads add");
        let given = processes(&[1, 3], |network| {
            run_all(&network, |device| sum(device, length)).expect("processes add")
        });
        assert_eq!(given.concat(), threads, "{length}");
    }
}

/// One exchange of all devices.
fn meet(device: &dyn Communicator) -> Result<(), ExchangeError> {
    let members: Vec<usize> = (0..device.topology().devices()).collect();
    let exchange = Exchange {
        name: "meet",
        site: 0,
        members: &members,
    };
    device.exchange(exchange, vec![of(&[1])]).map(|_| ())
}

fn text<T>(result: Result<T, RunError<ExchangeError>>) -> String {
    result
        .err()
        .map_or("no error".to_owned(), |e| e.to_string())
}

#[test]
fn a_device_that_fails_ends_the_others() {
    let given = processes(&[1, 1, 1], |network| {
        let first = text(run_all(&network, |device| match network.process() {
            1 => Err(ExchangeError::Failed { device: 77 }),
            _ => meet(device),
        }));
        // The next run is another one.
        (first, text(run_all(&network, meet)))
    });
    // Process 1 has device 1 of the program.
    let failed = |device: usize| format!("device {device}: device 1 failed");
    let own = "device 1: device 77 failed".to_owned();
    let second = || "no error".to_owned();
    let wanted = [
        (failed(2), second()),
        (own, second()),
        (failed(0), second()),
    ];
    assert_eq!(given, wanted);
}

#[test]
fn a_device_that_does_not_take_part_is_named() {
    let given = processes(&[1, 1], |network| {
        text(run_all(&network, |device| match network.process() {
            0 => meet(device),
            _ => Ok(()),
        }))
    });
    let wanted = "device 1: device 0 ended its run without taking part in `meet`";
    assert_eq!(given, [wanted, "no error"]);
}

#[test]
fn a_process_that_ends_is_named() {
    let given = processes(&[1, 1], |network| match network.process() {
        0 => text(run_all(&network, meet)),
        _ => String::new(),
    });
    let wanted =
        "device 1: `meet` waits for process 1, whose connection is lost: the process has ended";
    assert_eq!(given, [wanted, ""]);
}

#[test]
fn a_run_that_is_given_up_ends_the_others() {
    let given = processes(&[1, 1], |network| match network.process() {
        0 => text(run_all(&network, meet)),
        _ => {
            drop(network.begin(&all(&network), 1));
            // Its connection stays.
            text(run_all(&network, |_| Ok(())))
        }
    });
    assert_eq!(given[0], "device 1: device 0 failed");
}

#[test]
fn processes_that_run_other_programs_are_named() {
    let given = processes(&[1, 1], |network| {
        let run = network.begin(&all(&network), network.process() as u64);
        let timeout = Duration::from_secs(2);
        text(run.run(topology(2), timeout, |device| {
            let exchange = Exchange {
                name: "meet",
                site: network.process(),
                members: &[0, 1],
            };
            device.exchange(exchange, vec![of(&[1])]).map(|_| ())
        }))
    });
    let other = |own: &String| own.contains("which runs another program");
    assert!(given.iter().any(other), "{given:?}");
}

#[test]
fn what_is_late_is_named() {
    let waited = (Mutex::new(false), Condvar::new());
    let given = processes(&[1, 1], |network| {
        if network.process() == 1 {
            let held = waited.0.lock().unwrap();
            drop(waited.1.wait_while(held, |waited| !*waited));
            return String::new();
        }
        let run = network.begin(&all(&network), 1);
        let timeout = Duration::from_millis(100);
        let error = text(run.run(topology(2), timeout, |device| meet(&*device)));
        *waited.0.lock().unwrap() = true;
        waited.1.notify_all();
        error
    });
    assert_eq!(
        given[0],
        "device 1: `meet` waited 0.1 s for device 0, which did not take part"
    );
}

#[test]
fn strangers_are_sent_away() {
    let directory = Entries::default();
    let devices = [1, 1];
    std::thread::scope(|scope| {
        let listening = scope.spawn(|| Network::connect(&place(0, &devices), &directory));
        let entry = directory.get("test/0", LONG).expect("an entry");
        let address = entry.split(' ').nth(1).expect("an address");
        let mut stranger = TcpStream::connect(address).expect("it listens");
        std::io::Write::write_all(&mut stranger, &[0; 48]).expect("it is read");
        let other = Network::connect(&place(1, &devices), &directory);
        assert!(other.is_ok());
        assert!(listening.join().expect("no panic").is_ok());
    });
}

#[test]
fn versions_must_be_equal() {
    let directory = Entries::default();
    directory
        .put("test/1", &format!("1 127.0.0.1:1 {} 2", "00".repeat(32)))
        .expect("it is stored");
    let error = Network::connect(&place(0, &[1, 1]), &directory).err();
    let wanted = "process 1 runs 2, but this process runs 1: all must run the same version";
    assert_eq!(error.expect("an error").to_string(), wanted);
    directory.put("test/1", "nonsense").expect("it is stored");
    let error = Network::connect(&place(0, &[1, 1]), &directory).err();
    let wanted = "the directory has no valid entry for process 1: it cannot be read: does it run another \
                  version?";
    assert_eq!(error.expect("an error").to_string(), wanted);
}

#[test]
fn who_does_not_connect_is_named() {
    let directory = Entries::default();
    for process in [1, 2] {
        let entry = format!("1 127.0.0.1:1 {} 1", "00".repeat(32));
        directory
            .put(&format!("test/{process}"), &entry)
            .expect("it is stored");
    }
    let early = Place {
        timeout: Duration::from_millis(200),
        ..place(0, &[1, 1, 1])
    };
    let error = Network::connect(&early, &directory).err();
    let wanted = "process 1, 2 did not connect within 0 s";
    assert_eq!(error.expect("an error").to_string(), wanted);
}
