//! Tests of the links between lines of listings and lines of kernels.

use super::*;
use crate::compile::module::linked_listing;
use crate::options::{Listing, Options};
use crate::runtime::executable::listing;
use tegula_plan::{Plan, parse_plan};

const X86: [ListedMachine; 3] = [
    ListedMachine::X86(IsaLevel::X86V2),
    ListedMachine::X86(IsaLevel::X86V3),
    ListedMachine::X86(IsaLevel::X86V4),
];

fn machines() -> Vec<ListedMachine> {
    let mut all = X86.to_vec();
    if cfg!(feature = "aarch64") {
        all.push(ListedMachine::Aarch64);
    }
    all
}

fn plan(kernel: &str) -> Plan {
    let text = format!("plan \"t\" arena 0 {{\nk0 = {kernel}\nparameters()\nresults()\n}}");
    parse_plan(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

const POINTWISE: &str = "kernel(read f32[40, 37], write f32[40, 37]) {
  for i0 < 40
  for i1 < 37
  v0:f32 = load 0[i0, i1]
  v1:f32 = sqrt v0
  v2:f32 = exponential v1
  v3:f32 = divide v2, v0
  store 1[i0, i1] = v3
}";

const SCALAR: &str = "kernel(read f64[64], read s32[64], write f64[64]) {
  for i0 < 64
  v0:s32 = load 1[i0]
  bind i1 = v0 in [0, 63]
  v1:f64 = load 0[i1]
  v2:f64 = constant 0x0
  loop i2 < 9 (v3:f64) = (v2) -> (v4:f64) {
    v5:f64 = multiply v3, v1
    v6:f64 = sqrt v5
    v7:f64 = subtract v6, v3
    yield v7
  }
  store 2[i0] = v4
}";

/// The words of the kernel's lines that assembly lines with one of the `mnemonics` came from.
fn sources(listing: &LinkedListing, mnemonics: &[&str]) -> Vec<String> {
    let kernels: Vec<&str> = listing.kernels.lines().collect();
    let assembly = listing.assembly.as_ref().expect("assembly");
    let with = assembly.iter().filter(|line| {
        let text = line.text.split_once(": ").map_or("", |(_, text)| text);
        mnemonics.iter().any(|mnemonic| text.starts_with(mnemonic))
    });
    let line = |line: &LinkedLine| match line.source {
        0 => "nothing".to_owned(),
        source => kernels[source - 1].trim().to_owned(),
    };
    with.map(line).collect()
}

#[test]
fn an_instruction_comes_from_the_line_that_asks_for_it() {
    for kernel in [POINTWISE, SCALAR] {
        for machine in machines() {
            let listing = linked_listing(&plan(kernel), machine).expect("a listing");
            let roots = sources(&listing, &["sqrt", "vsqrt", "fsqrt"]);
            assert!(!roots.is_empty(), "{machine:?}");
            for line in roots {
                assert!(line.contains("sqrt"), "{machine:?}: {line}\n{listing:#?}");
            }
            if kernel == POINTWISE {
                let quotients = sources(&listing, &["div", "vdiv", "fdiv"]);
                assert!(!quotients.is_empty(), "{machine:?}");
                for line in quotients {
                    assert!(line.contains("divide"), "{machine:?}: {line}");
                }
            }
        }
    }
}

#[test]
fn every_statement_has_code_in_both_forms() {
    for kernel in [POINTWISE, SCALAR] {
        for machine in machines() {
            let listing = linked_listing(&plan(kernel), machine).expect("a listing");
            let assembly = listing.assembly.as_ref().expect("assembly");
            // Wide bodies are not in Cranelift IR.
            let is_wide = !matches!(
                machine,
                ListedMachine::Aarch64 | ListedMachine::X86(IsaLevel::X86V2)
            );
            for (at, line) in listing.kernels.lines().enumerate() {
                // Binding a variable widens a number, which a load instruction may do as well.
                let free = ["kernel(", "}", "yield", "constant", "bind"];
                if free.iter().any(|word| line.contains(word)) || line.trim().is_empty() {
                    continue;
                }
                // The outer dimension may be merged with the inner one, to whose line the loop
                // belongs.
                if kernel == POINTWISE && line.contains("for i0") {
                    continue;
                }
                let has = |lines: &[LinkedLine]| lines.iter().any(|l| l.source == at + 1);
                assert!(has(assembly), "{machine:?}: {line}\n{listing:#?}");
                if !is_wide {
                    assert!(has(&listing.clif), "{machine:?}: {line}");
                }
            }
            let last = listing.kernels.lines().count();
            assert!(
                assembly
                    .iter()
                    .chain(&listing.clif)
                    .all(|l| l.source <= last)
            );
        }
    }
}

#[test]
fn linked_code_is_the_code_that_runs() {
    for machine in X86 {
        let ListedMachine::X86(cpu) = machine else {
            continue;
        };
        let options = Options {
            cpu,
            ..Options::default()
        };
        for kernel in [POINTWISE, SCALAR] {
            let plan = plan(kernel);
            let linked = linked_listing(&plan, machine).expect("a listing");
            let clif: Vec<String> = linked
                .clif
                .iter()
                .map(|l| l.text.trim().to_owned())
                .collect();
            let plain = listing(&plan, &options, Listing::Clif).expect("a listing");
            let plain: Vec<&str> = plain.lines().map(str::trim).collect();
            let plain: Vec<&str> = plain
                .into_iter()
                .filter(|l| clif.iter().any(|c| c == l) || l.starts_with('v'))
                .collect();
            let missing: Vec<_> = plain
                .iter()
                .filter(|l| !clif.iter().any(|c| c == *l))
                .collect();
            assert!(missing.is_empty(), "{machine:?}: {missing:?}");
        }
    }
}

#[test]
fn constants_behind_the_code_are_not_listed() {
    for machine in machines() {
        let listing = linked_listing(&plan(SCALAR), machine).expect("a listing");
        let assembly = listing.assembly.expect("assembly");
        let last = &assembly.last().expect("a line").text;
        let ends = ["ret", "ud2", "jmp", "b 0x"];
        assert!(
            ends.iter().any(|end| last.contains(end)),
            "{machine:?}: {last}"
        );
        assert!(!assembly.iter().any(|line| line.text.contains("(bad)")));
    }
}
