//! Every example of the page has every view; a network's layers are found.

use super::{example, open};
use tegula_explorer::code::Isa;

#[test]
fn every_view_of_every_example() {
    let programs = [
        "examples/models/softmax.hlo",
        "examples/models/attention.hlo",
        "web/examples/conv_bn.hlo",
        "web/examples/max_pool.hlo",
        "web/examples/transposed_matmul.hlo",
        "web/examples/scan.hlo",
    ];
    for name in programs {
        let session = open(&example(name));
        let graph = session.graph().expect(name);
        assert!(!graph.nodes.is_empty() && !graph.units.is_empty(), "{name}");
        for node in &graph.nodes {
            for operand in 0..node.operands.len() {
                let edge = session.edge(node.id, operand).expect(name);
                let is_loop = ["while", "conditional"].contains(&node.opcode.as_str());
                assert_eq!(edge.unknown.is_some(), is_loop, "{name}: {}", node.name);
            }
        }
        for kernel in session.kernels().expect(name) {
            assert!(!kernel.units.is_empty(), "{name}: {}", kernel.name);
            let code = session.kernel_code(kernel.kernel, Isa::X86V3).expect(name);
            let clif = code.clif.expect(name);
            assert!(clif.lines.iter().any(|line| line.contains("function")));
            assert!(!code.assembly.expect(name).lines.is_empty(), "{name}");
        }
        let memory = session.memory().expect(name);
        assert!(
            memory.steps.iter().any(|step| step.bytes > Some(0.0)),
            "{name}"
        );
        for held in &memory.held {
            assert!(held.offset + held.bytes <= memory.arena_bytes.expect("static"));
        }
        session.assignment("v5e").expect(name);
        let report = session.tpu("v5e").expect(name);
        assert!(report.seconds > 0.0 && report.findings.is_empty(), "{name}");
    }
}

#[test]
fn lines_of_code_come_from_lines_of_the_kernel() {
    let session = open(&example("examples/models/softmax.hlo"));
    for isa in [Isa::X86V2, Isa::X86V3, Isa::X86V4, Isa::Aarch64] {
        for kernel in session.kernels().expect("kernels") {
            let code = session.kernel_code(kernel.kernel, isa).expect("code");
            assert!(code.compiled.starts_with(&kernel.name), "{}", code.compiled);
            let lines: Vec<&str> = code.compiled.lines().collect();
            let assembly = code.assembly.expect("assembly");
            assert_eq!(assembly.lines.len(), assembly.sources.len());
            let from = |word: &str| {
                let sources = assembly.sources.iter().filter(|&&source| source > 0);
                let lines = sources.map(|&source| lines[source - 1]);
                lines.filter(|line| line.contains(word)).count()
            };
            if code.compiled.contains("exponential") {
                // A polynomial.
                assert!(from("exponential") > 10, "{isa:?} {}", kernel.name);
            }
            assert!(from("load") > 0 && from("store") > 0, "{isa:?}");
            // What begins a function and ends it, and rows that bodies step through, come from nowhere.
            let linked = assembly.sources.iter().filter(|&&source| source > 0);
            let linked = linked.count() as f64 / assembly.sources.len() as f64;
            assert!(linked > 0.6, "{isa:?} {}: {linked}", kernel.name);
        }
    }
}

#[test]
fn a_kernel_that_has_no_room_says_at_which_line() {
    let text = example("web/examples/too_large.kernel");
    let report = open(&text).tpu("v5e").expect("it is simulated");
    let room = report
        .findings
        .iter()
        .find(|finding| finding.code == "TG002");
    let room = room.expect("VMEM has no room");
    let line = text.lines().nth(room.problem.line - 1).expect("a line");
    assert!(line.contains("vmem a"), "{line}");
    let fits = open(&example("web/examples/double_buffer.kernel"));
    assert!(
        fits.tpu("v5e")
            .expect("it is simulated")
            .findings
            .is_empty()
    );
}

#[test]
fn the_layers_of_a_network_are_one_group() {
    let Ok(corpus) = std::env::var("TEGULA_CORPUS") else {
        return;
    };
    let path = format!("{corpus}/gpt2_small_fwd.hlo");
    let text = std::fs::read_to_string(path).expect("the corpus has it");
    let repeat = open(&text).graph().expect("it is planned").repeat;
    let repeat = repeat.expect("its layers are equal");
    assert!((11..=12).contains(&repeat.count), "{repeat:?}");
}
