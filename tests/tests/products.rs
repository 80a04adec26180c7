//! Dots and convolutions of every form and type on every target, to the bit:
//! inputs are small dyadic numbers, whose products and sums are exact in any order.

use tegula::{Arg, Buffer, Cpu, Module, Options, Target, compile, plan, read};
use tegula_interp::Value;
use tegula_ir::{Category, Literal, Scalar};
use tegula_layout::plan::Step;

/// Small dyadic numbers, the same for the same module.
fn inputs(module: &Module) -> Vec<Literal> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (state >> 40) % 9
    };
    let entry = module.entry_computation();
    let shapes = entry.parameters.iter().map(|&p| &module[p].shape);
    let literals = shapes.map(|shape| {
        let mut literal = Literal::zeros(shape.as_array().expect("an array")).expect("small");
        for i in 0..literal.len() {
            let number = next() as i64 - 4;
            let scalar = match literal.element_type().category() {
                Category::Float => Scalar::Float(number as f64 / 4.0),
                Category::Unsigned => Scalar::Uint((number + 100) as u64),
                _ => Scalar::Int(number * 17),
            };
            literal.set_scalar(i, scalar).expect("it is inside");
        }
        literal
    });
    literals.collect()
}

/// Runs a program on the Plan and on each kind of CPU, on one thread and more,
/// and compares with the reference evaluator.
fn agrees(text: &str) -> Module {
    let module = read(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let inputs = inputs(&module);
    let arguments: Vec<Value> = inputs.iter().cloned().map(Value::Array).collect();
    let expected = tegula_interp::evaluate(&module, &arguments);
    let expected = expected.unwrap_or_else(|e| panic!("{e}\n{text}"));
    let leaves = expected.leaves();
    let mut targets = vec![(Target::Plan, Cpu::Native, 1)];
    for cpu in [Cpu::Native, Cpu::X86V3, Cpu::X86V2] {
        targets.extend([(Target::Cpu, cpu, 1), (Target::Cpu, cpu, 3)]);
    }
    for (target, cpu, threads) in targets {
        let options = Options {
            target,
            cpu,
            threads,
        };
        let executable = match compile(&module, &options) {
            Err(_) if cpu == Cpu::X86V3 && !has_avx2() => continue,
            compiled => compiled.unwrap_or_else(|e| panic!("{e}\n{text}")),
        };
        let buffers: Vec<Buffer> = inputs.iter().cloned().map(Buffer::from).collect();
        // Twice: memory that the first run leaves behind is used again.
        for _ in 0..2 {
            let outputs = executable.run(buffers.iter().map(Arg::Borrowed).collect());
            let outputs = outputs.unwrap_or_else(|e| panic!("{e}\n{text}"));
            for (output, expected) in outputs.iter().zip(&leaves) {
                let got = output.literal();
                for i in 0..expected.len() {
                    let (got, want) = (got.scalar(i), expected.scalar(i));
                    assert_eq!(got, want, "{i} on {target:?} {cpu:?} {threads}\n{text}");
                }
            }
        }
    }
    module
}

fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// How many steps of a plan are kernels, and how many library calls.
fn steps(module: &Module) -> (usize, usize) {
    let plan = plan(module).expect("it plans").plan;
    let count = |wanted: fn(&Step) -> bool| plan.steps.iter().filter(|s| wanted(s)).count();
    (
        count(|s| matches!(s, Step::Kernel { .. })),
        count(|s| matches!(s, Step::Library { .. })),
    )
}

#[test]
fn transpositions_are_folded_into_dots() {
    // Of each operand, of the result, of all; with batches; through reshapes that
    // merge dimensions or drop those of size 1.
    let programs = [
        "a = f32[5,7] parameter(0) b = f32[9,7] parameter(1)
         t = f32[7,9] transpose(b), dimensions={1,0}
         ROOT r = f32[5,9] dot(a, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "a = f32[7,5] parameter(0) b = f32[9,7] parameter(1)
         s = f32[5,7] transpose(a), dimensions={1,0}
         t = f32[7,9] transpose(b), dimensions={1,0}
         d = f32[5,9] dot(s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
         ROOT r = f32[9,5] transpose(d), dimensions={1,0}",
        "a = f32[2,6,3,4] parameter(0) b = f32[2,5,3,4] parameter(1)
         s = f32[2,3,6,4] transpose(a), dimensions={0,2,1,3}
         t = f32[2,3,4,5] transpose(b), dimensions={0,2,3,1}
         d = f32[2,3,6,5] dot(s, t), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
         ROOT r = f32[2,6,5,3] transpose(d), dimensions={0,2,3,1}",
        "a = f32[2,3,6,4] parameter(0) b = f32[12,5] parameter(1)
         s = f32[2,6,3,4] transpose(a), dimensions={0,2,1,3}
         m = f32[12,12] reshape(s)
         ROOT r = f32[12,5] dot(m, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "a = f32[3,6,4] parameter(0) b = f32[12,5] parameter(1)
         s = f32[6,3,4] transpose(a), dimensions={1,0,2}
         m = f32[1,6,12] reshape(s)
         ROOT r = f32[1,6,5] dot(m, b), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        "a = f32[6,4,3] parameter(0) b = f32[4,3,5] parameter(1)
         s = f32[3,4,6] transpose(a), dimensions={2,1,0}
         t = f32[3,4,5] transpose(b), dimensions={1,0,2}
         ROOT r = f32[6,5] dot(s, t), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}",
    ];
    for body in programs {
        let module = agrees(&format!("HloModule m\nENTRY e {{\n{body}\n}}"));
        assert_eq!(steps(&module), (0, 1), "{body}");
    }
}

#[test]
fn what_a_dot_cannot_express_stays() {
    // A reshape that splits otherwise than the other side, a transposition that
    // others read as well, one outside of a loop.
    let programs = [
        "a = f32[6,4] parameter(0) b = f32[2,12] parameter(1)
         s = f32[4,6] transpose(a), dimensions={1,0}
         m = f32[2,12] reshape(s)
         ROOT r = f32[2,2] dot(m, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "a = f32[5,7] parameter(0) b = f32[7,9] parameter(1)
         d = f32[5,9] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
         t = f32[9,5] transpose(d), dimensions={1,0}
         ROOT r = (f32[9,5], f32[5,9]) tuple(t, d)",
        "a = f32[1,0,4] parameter(0) b = f32[4,3] parameter(1)
         s = f32[0,1,4] transpose(a), dimensions={1,0,2}
         m = f32[0,4] reshape(s)
         ROOT r = f32[0,3] dot(m, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ];
    for body in programs {
        agrees(&format!("HloModule m\nENTRY e {{\n{body}\n}}"));
    }
}
