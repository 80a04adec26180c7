//! Dots and convolutions of every form and type on every target, to the bit:
//! inputs are small dyadic numbers, whose products and sums are exact in any order.

use tegula::{Arg, IsaLevel, Options, Target, Tensor, compile, plan};
use tegula_interp::Value;
use tegula_ir::Module;
use tegula_ir::{Category, Literal, Scalar};
use tegula_plan::Step;
use tegula_tests::judge::{MIDDLE, OLDEST};
use tegula_tests::read;

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
    let mut targets = vec![(Target::Plan, IsaLevel::Native, 1)];
    for cpu in [IsaLevel::Native, MIDDLE, OLDEST] {
        targets.extend([(Target::Cpu, cpu, 1), (Target::Cpu, cpu, 3)]);
    }
    for (target, cpu, threads) in targets {
        let options = Options {
            target,
            cpu,
            threads,
            chip: None,
            orders: tegula::LayoutPolicy::LeastCost,
            cache: None,
            ..Options::default()
        };
        let executable = match compile(&module, &options) {
            Err(_) if cpu == MIDDLE && !MIDDLE.is_supported() => continue,
            compiled => compiled.unwrap_or_else(|e| panic!("{e}\n{text}")),
        };
        let buffers: Vec<Tensor> = inputs.iter().cloned().map(Tensor::from).collect();
        // Twice: memory that the first run leaves behind is used again.
        for _ in 0..2 {
            let outputs = executable.run(buffers.iter());
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

/// Element types of operands and result that routines multiply.
const TYPES: [(&str, &str, &str); 18] = [
    ("f32", "f32", "f32"),
    ("f64", "f64", "f64"),
    ("bf16", "bf16", "bf16"),
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f16"),
    ("f16", "f16", "f32"),
    ("s8", "s8", "s32"),
    ("u8", "u8", "s32"),
    ("s8", "u8", "s32"),
    ("s8", "s8", "s8"),
    ("u8", "u8", "u8"),
    ("s16", "s16", "s32"),
    ("u16", "u16", "u16"),
    ("s32", "s32", "s32"),
    ("u32", "u32", "u32"),
    ("s64", "s64", "s64"),
    ("s8", "s8", "s64"),
    ("u64", "u64", "u64"),
];

#[test]
fn dots_of_every_type_and_odd_size() {
    let sizes = [
        (1, 1, 1, 1),
        (1, 3, 5, 2),
        (2, 17, 33, 19),
        (1, 15, 7, 70),
        (3, 29, 650, 47),
        (1, 1, 40, 65),
        (1, 66, 31, 1),
        (0, 2, 3, 4),
        (2, 3, 0, 5),
    ];
    for (lhs, rhs, out) in TYPES {
        for (i, &(b, m, k, n)) in sizes.iter().enumerate() {
            // Every order of each operand's dimensions, in turn.
            let (left, left_dims) = match i % 3 {
                0 => (format!("{b},{m},{k}"), (0, 2)),
                1 => (format!("{b},{k},{m}"), (0, 1)),
                _ => (format!("{m},{b},{k}"), (1, 2)),
            };
            let (right, right_dims) = match i % 4 {
                0 => (format!("{b},{k},{n}"), (0, 1)),
                1 => (format!("{k},{n},{b}"), (2, 0)),
                2 => (format!("{n},{k},{b}"), (2, 1)),
                _ => (format!("{b},{n},{k}"), (0, 2)),
            };
            let module = agrees(&format!(
                "HloModule m\nENTRY e {{
                 a = {lhs}[{left}] parameter(0) b = {rhs}[{right}] parameter(1)
                 ROOT r = {out}[{b},{m},{n}] dot(a, b), lhs_batch_dims={{{}}}, rhs_batch_dims={{{}}}, lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}} }}",
                left_dims.0, right_dims.0, left_dims.1, right_dims.1,
            ));
            // A few products are summed by a kernel.
            let shallow = (1..=8).contains(&k) && (m <= 4 || n <= 4);
            // There is no routine for one row or column of wide integers.
            let wide = ["s16", "u16", "s32", "u32", "s64", "u64"].contains(&lhs);
            let is_kernel = shallow || wide && (m == 1 || n == 1);
            let expected = if is_kernel { (1, 0) } else { (0, 1) };
            assert_eq!(steps(&module), expected);
        }
    }
}

#[test]
fn large_dots_are_blocked_right() {
    // Left operands that are packed whole and that are not, results whose rows or
    // columns are split between threads, transposed results.
    for (ty, m, k, n) in [
        ("f32", 300, 1000, 70),
        ("f32", 70, 1000, 300),
        ("bf16", 310, 1500, 90),
        ("bf16", 2100, 40, 33),
        ("f32", 2100, 20, 40),
        ("f64", 270, 700, 50),
    ] {
        for transposed in [false, true] {
            let root = match transposed {
                false => format!("ROOT r = {ty}[{m},{n}] add(d, d)"),
                true => format!("ROOT r = {ty}[{n},{m}] transpose(d), dimensions={{1,0}}"),
            };
            agrees(&format!(
                "HloModule m\nENTRY e {{
                 a = {ty}[{m},{k}] parameter(0) b = {ty}[{k},{n}] parameter(1)
                 d = {ty}[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
                 {root} }}"
            ));
        }
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

/// A convolution's text: types, sizes, window, labels, groups.
fn convolution(
    (input, kernel, out): (&str, &str, &str),
    sizes: [&str; 3],
    window: &str,
    labels: &str,
    groups: &str,
) -> String {
    let [x, k, y] = sizes;
    format!(
        "HloModule m\nENTRY e {{
         x = {input}[{x}] parameter(0) k = {kernel}[{k}] parameter(1)
         ROOT r = {out}[{y}] convolution(x, k), window={{{window}}}, dim_labels={labels}{groups} }}"
    )
}

#[test]
fn convolutions_of_every_type() {
    for types in TYPES {
        agrees(&convolution(
            types,
            ["2,7,8,3", "3,3,3,5", "2,7,4,5"],
            "size=3x3 stride=1x2 pad=1_1x1_0",
            "b01f_01io->b01f",
            "",
        ));
        agrees(&convolution(
            types,
            ["2,5,6,18", "3,2,1,18", "2,5,5,18"],
            "size=3x2 pad=1_1x0_0",
            "b01f_01io->b01f",
            ", feature_group_count=18",
        ));
    }
}

#[test]
fn convolutions_of_every_form() {
    let forms = [
        // 1x1; the stem's 7x7; one dimension; three; none.
        (
            ["2,6,5,33", "1,1,33,40", "2,6,5,40"],
            "size=1x1",
            "b01f_01io->b01f",
            "",
        ),
        (
            ["1,16,16,3", "7,7,3,20", "1,8,8,20"],
            "size=7x7 stride=2x2 pad=3_3x3_3",
            "b01f_01io->b01f",
            "",
        ),
        (
            ["2,50,4", "5,4,16", "2,25,16"],
            "size=5 stride=2 pad=1_2",
            "b0f_0io->b0f",
            "",
        ),
        (
            ["1,4,5,6,3", "2,3,2,3,4", "1,3,3,5,4"],
            "size=2x3x2",
            "b012f_012io->b012f",
            "",
        ),
        (["3,8", "8,5", "3,5"], "", "bf_io->bf", ""),
        // Features first, and stranger orders.
        (
            ["2,3,9,20", "4,3,3,3", "2,4,9,20"],
            "size=3x3 pad=1_1x1_1",
            "bf01_oi01->bf01",
            "",
        ),
        (
            ["9,2,20,3", "3,4,3,3", "4,20,2,9"],
            "size=3x3 pad=1_1x1_1",
            "0b1f_io01->f1b0",
            "",
        ),
        // Dilations, negative padding, reversal, all at once.
        (
            ["1,20,20,4", "3,3,4,8", "1,20,20,8"],
            "size=3x3 pad=2_2x2_2 rhs_dilate=2x2",
            "b01f_01io->b01f",
            "",
        ),
        (
            ["2,8,8,3", "4,4,3,5", "2,16,16,5"],
            "size=4x4 pad=2_2x2_2 lhs_dilate=2x2",
            "b01f_01io->b01f",
            "",
        ),
        (
            ["1,9,9,2", "3,3,2,4", "1,5,3,4"],
            "size=3x3 pad=-1_-1x-2_-2",
            "b01f_01io->b01f",
            "",
        ),
        (
            ["1,9,9,2", "3,3,2,4", "1,9,9,4"],
            "size=3x3 pad=1_1x1_1 rhs_reversal=1x1",
            "b01f_01io->b01f",
            "",
        ),
        (
            ["1,7,6,2", "3,2,2,4", "1,7,6,4"],
            "size=3x2 stride=2x3 pad=3_1x-1_2 lhs_dilate=2x3 rhs_dilate=2x1 rhs_reversal=1x0",
            "b01f_01io->b01f",
            "",
        ),
        (
            ["1,3,2,2", "1,1,2,4", "1,9,4,4"],
            "size=1x1 lhs_dilate=4x3",
            "b01f_01io->b01f",
            "",
        ),
        // The forms of gradients.
        (
            ["4,28,28,2", "4,28,28,3", "5,5,2,3"],
            "size=28x28 pad=2_2x2_2",
            "f01b_i01o->01bf",
            "",
        ),
        (
            ["4,6,6,3", "5,5,2,3", "4,10,10,2"],
            "size=5x5 pad=4_4x4_4",
            "b01f_01oi->b01f",
            "",
        ),
        // Groups of features and of batches.
        (
            ["2,6,6,8", "3,3,4,6", "2,6,6,6"],
            "size=3x3 pad=1_1x1_1",
            "b01f_01io->b01f",
            ", feature_group_count=2",
        ),
        (
            ["2,6,6,4", "3,3,1,8", "2,6,6,8"],
            "size=3x3 pad=1_1x1_1",
            "b01f_01io->b01f",
            ", feature_group_count=4",
        ),
        (
            ["2,20,6,7", "20,1,3,3", "2,20,6,7"],
            "size=3x3 pad=1_1x1_1",
            "bf01_oi01->bf01",
            ", feature_group_count=20",
        ),
        (
            ["6,5,5,4", "3,3,4,9", "2,3,3,9"],
            "size=3x3",
            "b01f_01io->b01f",
            ", batch_group_count=3",
        ),
        // More border than anything else, and more phases than products.
        (
            ["1,3,1", "2,1,1", "1,200003,1"],
            "size=2 pad=100000_100001",
            "b0f_0io->b0f",
            "",
        ),
        (
            ["1,3,1", "2,1,2", "1,200,2"],
            "size=2 pad=0_0 lhs_dilate=100",
            "b0f_0io->b0f",
            "",
        ),
        // Nothing.
        (
            ["0,5,5,2", "3,3,2,4", "0,3,3,4"],
            "size=3x3",
            "b01f_01io->b01f",
            "",
        ),
        (
            ["1,5,5,0", "3,3,0,4", "1,3,3,4"],
            "size=3x3",
            "b01f_01io->b01f",
            "",
        ),
        (
            ["1,2,2,2", "3,3,2,4", "1,0,0,4"],
            "size=3x3",
            "b01f_01io->b01f",
            "",
        ),
    ];
    for ty in ["f32", "bf16", "s32"] {
        for (sizes, window, labels, groups) in forms {
            let module = agrees(&convolution((ty, ty, ty), sizes, window, labels, groups));
            assert_eq!(steps(&module), (0, 1));
        }
    }
}

#[test]
fn infinities_beside_a_border_stay_infinite() {
    let text = "HloModule m
        ENTRY e {
          one = f32[1,4,4,1] parameter(0)
          inf = f32[] constant(inf)
          k = f32[3,3,1,2] broadcast(inf), dimensions={}
          zero = f32[] constant(0)
          zeros = f32[1,4,4,1] broadcast(zero), dimensions={}
          x = f32[1,4,4,1] maximum(one, zeros)
          ROOT r = f32[1,4,4,2] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
        }";
    let module = read(text).expect("it is a program");
    let ones = Tensor::from_slice::<f32>(&[1, 4, 4, 1], &[1.0; 16]).expect("it is small");
    let executable = compile(&module, &Options::default()).expect("it compiles");
    let outputs = executable.run(vec![Arg::Borrowed(&ones)]).expect("it runs");
    let values = outputs[0].as_slice::<f32>().expect("they are f32");
    assert!(values.iter().all(|&x| x == f32::INFINITY), "{values:?}");
}

#[test]
fn subnormal_numbers_of_bf16_are_multiplied() {
    // 2^-130 * 2^127, 8 of them.
    let text = "HloModule m
        ENTRY e {
          a = bf16[5,8] parameter(0) b = bf16[8,7] parameter(1)
          ROOT r = f32[5,7] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }";
    let module = read(text).expect("it is a program");
    let filled = |shape: usize, bits: u16| {
        let shape = module[module.entry_computation().parameters[shape]]
            .shape
            .clone();
        let mut literal = Literal::zeros(shape.as_array().expect("an array")).expect("small");
        for chunk in literal.bytes_mut().chunks_exact_mut(2) {
            chunk.copy_from_slice(&bits.to_ne_bytes());
        }
        Tensor::from(literal)
    };
    let (small, large) = (filled(0, 0x0008), filled(1, 0x7f00));
    let executable = compile(&module, &Options::default()).expect("it compiles");
    let outputs = executable.run(vec![Arg::Borrowed(&small), Arg::Borrowed(&large)]);
    let outputs = outputs.expect("it runs");
    let values = outputs[0].as_slice::<f32>().expect("they are f32");
    assert!(values.iter().all(|&x| x == 1.0), "{values:?}");
}
