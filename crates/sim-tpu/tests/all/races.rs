//! Compares the machine's races with their definition, on random programs of copies, waits and
//! computations whose accesses are compared pairwise in the partial order of their events.
//!
//! In that order the core's statements follow each other, a copy follows its start, and a statement
//! after a wait follows the copy that was waited for. Two accesses to one element race if one of
//! them writes and neither follows the other.

use crate::common::Random;
use std::collections::BTreeSet;
use tegula_sim_tpu::{Code, Options, read_kernel, simulate};
use tegula_target::Chip;

const BUFFERS: usize = 3;
const ROWS: usize = 4;
const SEMAPHORES: usize = 3;

/// Rows of a buffer.
#[derive(Clone, Copy)]
struct Rows {
    buffer: usize,
    first: usize,
    count: usize,
}

impl Rows {
    fn random(random: &mut Random, count: usize) -> Self {
        Self {
            buffer: random.below(BUFFERS),
            first: random.below(ROWS - count + 1),
            count,
        }
    }

    fn meets(self, other: Self) -> bool {
        self.buffer == other.buffer
            && self.first < other.first + other.count
            && other.first < self.first + self.count
    }

    fn text(self) -> String {
        let (first, count) = (8 * self.first, 8 * self.count);
        format!("b{}[{first} +: {count}, :]", self.buffer)
    }
}

#[derive(Clone, Copy)]
enum Event {
    Copy(Rows, Rows, usize),
    Wait(usize),
    Compute(Rows, Rows),
}

/// An access by a statement: by the core itself, or by the copy that the statement starts.
struct Access {
    line: usize,
    copy: bool,
    rows: Rows,
    writes: bool,
}

/// The findings by the definition: the code and the line of the later access.
fn races(events: &[Event], first_line: usize) -> BTreeSet<(&'static str, u32)> {
    let mut accesses = Vec::new();
    // For each statement that starts a copy, the statement that waits for it.
    let mut waited = vec![usize::MAX; events.len()];
    let mut queues: Vec<Vec<usize>> = vec![Vec::new(); SEMAPHORES];
    for (line, event) in events.iter().enumerate() {
        let mut add = |copy, rows, writes| {
            accesses.push(Access {
                line,
                copy,
                rows,
                writes,
            });
        };
        match *event {
            Event::Copy(from, to, semaphore) => {
                add(true, from, false);
                add(true, to, true);
                queues[semaphore].push(line);
            }
            Event::Wait(semaphore) => {
                if !queues[semaphore].is_empty() {
                    waited[queues[semaphore].remove(0)] = line;
                }
            }
            Event::Compute(from, to) => {
                add(false, from, false);
                add(false, to, true);
            }
        }
    }
    // An earlier access precedes a later one if it is the core's own, or if its copy was waited for
    // in between.
    let ordered = |a: &Access, b: &Access| !a.copy || waited[a.line] < b.line;
    let mut found = BTreeSet::new();
    for a in &accesses {
        for b in &accesses {
            if a.line >= b.line || !a.rows.meets(b.rows) || ordered(a, b) {
                continue;
            }
            let code = match (a.writes, b.writes) {
                (true, false) => Code::ReadBeforeDone,
                (false, true) => Code::Overwritten,
                (true, true) => Code::TwoWrites,
                (false, false) => continue,
            };
            found.insert((code.name(), (b.line + first_line) as u32));
        }
    }
    // A copy onto itself races.
    for (line, event) in events.iter().enumerate() {
        if let Event::Copy(from, to, _) = event
            && from.meets(*to)
        {
            found.insert((Code::Overwritten.name(), (line + first_line) as u32));
        }
    }
    found
}

#[test]
fn races_are_those_of_the_partial_order() {
    let mut random = Random(7);
    let chip = Chip::by_name("v5e").expect("a chip");
    let (mut racy, mut clean) = (0, 0);
    for _ in 0..3000 {
        let count = 2 + random.below(10);
        let events: Vec<Event> = (0..count)
            .map(|_| {
                let size = 1 + random.below(2);
                match random.below(5) {
                    0 | 1 => Event::Copy(
                        Rows::random(&mut random, size),
                        Rows::random(&mut random, size),
                        random.below(SEMAPHORES),
                    ),
                    2 | 3 => Event::Wait(random.below(SEMAPHORES)),
                    _ => Event::Compute(
                        Rows::random(&mut random, size),
                        Rows::random(&mut random, size),
                    ),
                }
            })
            .collect();
        let mut text = String::from("kernel k {\n");
        for b in 0..BUFFERS {
            text.push_str(&format!("vmem b{b} : f32[{},128]\n", 8 * ROWS));
        }
        text.push_str(&format!("sem s[{SEMAPHORES}]\n"));
        for b in 0..BUFFERS {
            text.push_str(&format!("b{b}[:, :] = broadcast(1.0), dimensions={{}}\n"));
        }
        let first_line = text.lines().count() + 1;
        for event in &events {
            text.push_str(&match event {
                Event::Copy(from, to, s) => {
                    format!("start {} -> {}, s[{s}]\n", from.text(), to.text())
                }
                Event::Wait(s) => format!("wait s[{s}]\n"),
                Event::Compute(from, to) => format!("{} = negate({})\n", to.text(), from.text()),
            });
        }
        text.push('}');
        let program = read_kernel(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let report = simulate(&program, &chip, &Options::default()).expect("it runs");
        let codes = [Code::ReadBeforeDone, Code::Overwritten, Code::TwoWrites];
        let found: BTreeSet<(&str, u32)> = report
            .findings
            .iter()
            .filter(|finding| codes.contains(&finding.code))
            .map(|finding| (finding.code.name(), finding.line))
            .collect();
        let expected = races(&events, first_line);
        assert_eq!(found, expected, "{text}");
        if expected.is_empty() {
            clean += 1;
        } else {
            racy += 1;
        }
    }
    assert!(racy > 500 && clean > 300, "{racy} racy, {clean} clean");
}
