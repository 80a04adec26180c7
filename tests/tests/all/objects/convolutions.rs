//! Convolutions whose sizes are open: the routines of a run, at any sizes.

use super::{drawn, folder, widest};
use std::sync::atomic::{AtomicUsize, Ordering};
use tegula::{IsaLevel, Options, Tensor, compile};
use tegula_ir::{ArrayShape, Literal, Module, Scalar};
use tegula_tests::judge::{MIDDLE, OLDEST};
use tegula_tests::object::LinkedObject;
use tegula_tests::read;

/// The results of an object and of a run at each of these sizes, with inputs that are changed.
fn results(
    module: &Module,
    cpu: IsaLevel,
    sizes: &[&[i64]],
    change: &dyn Fn(&mut Vec<Literal>),
) -> Vec<[Literal; 2]> {
    let options = Options {
        cpu,
        ..Options::default()
    };
    let executable = compile(module, &options).expect("compiled");
    // Tests run at once.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = folder(&format!("convolution-{number}"));
    let linked = LinkedObject::new(module, cpu, &folder).expect("an object");
    let each = sizes.iter().map(|sizes| {
        let mut inputs = drawn(module, sizes);
        change(&mut inputs);
        let buffers: Vec<Tensor> = inputs.iter().cloned().map(Into::into).collect();
        let expected = executable
            .run(&buffers)
            .expect("it runs")
            .remove(0)
            .into_literal();
        let shapes: [ArrayShape; 1] = [expected.shape().clone()];
        let mut outputs = linked.run(sizes, &inputs, &shapes).expect("it runs");
        [outputs.remove(0), expected]
    });
    let each = each.collect();
    let _ = std::fs::remove_dir_all(folder);
    each
}

/// A convolution of these shapes of the input, the kernel and the output.
fn program(shapes: [&str; 3], rest: &str) -> Module {
    let [input, kernel, output] = shapes;
    let text = format!(
        "HloModule m ENTRY e {{
           x = {input} parameter(0)  w = {kernel} parameter(1)
           ROOT y = {output} convolution(x, w), {rest}
         }}"
    );
    read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

const LAST: &str = "dim_labels=b01f_01io->b01f";
const FIRST: &str = "dim_labels=bf01_oi01->bf01";

/// The shapes of input, kernel and output, the attributes, and the sizes at which it runs.
type Case<T> = ([&'static str; 3], T, &'static [&'static [i64]]);

/// Images of open sizes and number give the bits of a run: with a border, strides and dilations, in groups, with
/// the features first and last, of all types that routines have.
#[test]
fn open_sizes_give_the_bits_of_a_run() {
    let images: &'static [&'static [i64]] = &[
        &[1, 9, 7],
        &[3, 16, 20],
        &[2, 33, 40],
        &[1, 1, 1],
        &[0, 5, 5],
        &[2, 0, 6],
    ];
    let planes: &'static [&'static [i64]] = &[&[9, 7], &[16, 20], &[33, 40], &[2, 2]];
    let cases: [Case<String>; 14] = [
        (
            ["f32[?,?,?,4]", "f32[3,3,4,6]", "f32[?,?,?,6]"],
            format!("window={{size=3x3 pad=1_1x1_1}}, {LAST}"),
            images,
        ),
        (
            ["f32[?,?,?,12]", "f32[1,1,12,40]", "f32[?,?,?,40]"],
            format!("window={{size=1x1}}, {LAST}"),
            images,
        ),
        (
            ["f32[?,?,?,4]", "f32[5,3,4,16]", "f32[?,?,?,16]"],
            format!("window={{size=5x3 stride=2x3 pad=2_2x1_0 rhs_dilate=1x2}}, {LAST}"),
            &images[..3],
        ),
        (
            ["f32[?,?,?,8]", "f32[4,4,8,5]", "f32[?,?,?,5]"],
            format!("window={{size=4x4 pad=2_2x2_2 lhs_dilate=2x2}}, {LAST}"),
            &images[..4],
        ),
        (
            ["f32[?,?,?,8]", "f32[3,3,8,5]", "f32[?,?,?,5]"],
            format!("window={{size=3x3 pad=2_1x1_2 lhs_dilate=3x2 rhs_reversal=1x1}}, {LAST}"),
            &images[..4],
        ),
        (
            ["f32[?,?,?,24]", "f32[3,3,1,24]", "f32[?,?,?,24]"],
            format!("window={{size=3x3 pad=1_1x1_1}}, {LAST}, feature_group_count=24"),
            &images[..5],
        ),
        (
            ["f32[2,8,?,?]", "f32[8,1,3,3]", "f32[2,8,?,?]"],
            format!("window={{size=3x3 pad=1_1x1_1}}, {FIRST}, feature_group_count=8"),
            planes,
        ),
        (
            ["f32[2,8,?,?]", "f32[8,1,5,5]", "f32[2,8,?,?]"],
            format!("window={{size=5x5 stride=2x2 pad=2_2x2_2}}, {FIRST}, feature_group_count=8"),
            planes,
        ),
        (
            ["f32[1,1,?,?]", "f32[1,1,3,3]", "f32[1,1,?,?]"],
            format!("window={{size=3x3 pad=1_1x1_1}}, {FIRST}"),
            planes,
        ),
        (
            ["f32[3,6,?,?]", "f32[10,3,3,3]", "f32[3,10,?,?]"],
            format!("window={{size=3x3 pad=1_1x1_1}}, {FIRST}, feature_group_count=2"),
            planes,
        ),
        (
            ["f32[4,?,?,3]", "f32[3,3,3,8]", "f32[2,?,?,8]"],
            format!("window={{size=3x3 pad=1_1x1_1}}, {LAST}, batch_group_count=2"),
            planes,
        ),
        (
            ["bf16[?,?,?,16]", "bf16[3,3,16,32]", "bf16[?,?,?,32]"],
            format!("window={{size=3x3 pad=1_1x1_1}}, {LAST}"),
            &images[..4],
        ),
        (
            ["s8[?,?,?,16]", "s8[3,3,16,8]", "s32[?,?,?,8]"],
            format!("window={{size=3x3 pad=1_1x1_1}}, {LAST}"),
            &images[..4],
        ),
        (
            ["f64[?,?,?,5]", "f64[3,3,5,7]", "f64[?,?,?,7]"],
            format!("window={{size=3x3 pad=1_1x1_1 stride=2x1}}, {LAST}"),
            &images[..4],
        ),
    ];
    for (shapes, rest, sizes) in &cases {
        let module = program(*shapes, rest);
        for cpu in [widest(), MIDDLE, OLDEST] {
            let all = results(&module, cpu, sizes, &|_| {});
            for ([found, wanted], sizes) in all.iter().zip(*sizes) {
                assert!(
                    found.bytes() == wanted.bytes(),
                    "{cpu} {sizes:?} {shapes:?} {rest}"
                );
            }
        }
    }
}

/// Signals and volumes.
#[test]
fn signals_and_volumes_give_the_bits_of_a_run() {
    let cases: [Case<&str>; 2] = [
        (
            ["f32[?,?,8]", "f32[7,8,12]", "f32[?,?,12]"],
            "window={size=7 pad=6_0}, dim_labels=b0f_0io->b0f",
            &[&[1, 1], &[2, 100], &[1, 1000]],
        ),
        (
            ["f32[1,?,?,?,3]", "f32[3,3,3,3,4]", "f32[1,?,?,?,4]"],
            "window={size=3x3x3 pad=1_1x1_1x1_1}, dim_labels=b012f_012io->b012f",
            &[&[4, 5, 6], &[1, 9, 2]],
        ),
    ];
    for (shapes, rest, sizes) in cases {
        let module = program(shapes, rest);
        for ([found, wanted], sizes) in results(&module, widest(), sizes, &|_| {}).iter().zip(sizes)
        {
            assert!(found.bytes() == wanted.bytes(), "{sizes:?} {shapes:?}");
        }
    }
}

/// A kernel that is a large constant is packed in each call, as a run packs it once.
#[test]
fn large_constant_kernels_give_the_bits_of_a_run() {
    for ty in ["f32", "bf16"] {
        let numbers = |count: usize, salt: usize| -> String {
            let each =
                (0..count).map(|at| format!("{}", ((at * 7 + salt * 5) % 23) as f64 / 16.0 - 0.7));
            each.collect::<Vec<_>>().join(",")
        };
        let rows = (0..16)
            .map(|row| format!("{{{}}}", numbers(48, row)))
            .collect::<Vec<_>>()
            .join(",");
        let taps = (0..3)
            .map(|_| format!("{{{{{rows}}},{{{rows}}},{{{rows}}}}}"))
            .collect::<Vec<_>>()
            .join(",");
        let text = format!(
            "HloModule m ENTRY e {{
               x = {ty}[?,?,?,16] parameter(0)
               w = {ty}[3,3,16,48] constant({{{taps}}})
               ROOT y = {ty}[?,?,?,48] convolution(x, w), window={{size=3x3 pad=1_1x1_1}}, {LAST}
             }}"
        );
        let module = read(&text).expect("a program");
        let sizes: &[&[i64]] = &[&[1, 9, 7], &[3, 16, 20], &[1, 1, 1]];
        for cpu in [IsaLevel::Native, widest(), MIDDLE, OLDEST] {
            // Runs may use matrix registers, which objects do not.
            if cpu == IsaLevel::Native && widest() != MIDDLE {
                continue;
            }
            for ([found, wanted], sizes) in results(&module, cpu, sizes, &|_| {}).iter().zip(sizes)
            {
                assert!(found.bytes() == wanted.bytes(), "{ty} {cpu} {sizes:?}");
            }
        }
    }
}

fn are_near(found: &Literal, wanted: &Literal) -> bool {
    let (found, wanted) = (found.as_f32s(), wanted.as_f32s());
    let (found, wanted) = (found.expect("floats"), wanted.expect("floats"));
    let near = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() < 1e-4;
    found.len() == wanted.len() && found.iter().zip(wanted).all(near)
}

/// Where the kernel is not finite its border must not count, and what would be too many products is
/// computed by the program's own loops: both may be rounded otherwise.
#[test]
fn borders_count_as_nothing_beside_infinities() {
    let bordered = program(
        ["f32[?,?,?,4]", "f32[3,3,4,6]", "f32[?,?,?,6]"],
        &format!("window={{size=3x3 pad=1_1x1_1}}, {LAST}"),
    );
    let infinite = |inputs: &mut Vec<Literal>| {
        inputs[1]
            .set_scalar(5, Scalar::Float(f64::INFINITY))
            .expect("an element");
    };
    for [found, wanted] in results(&bordered, widest(), &[&[2, 9, 7], &[1, 2, 2]], &infinite) {
        assert!(are_near(&found, &wanted));
    }
    let many = program(
        ["f32[?,?,?,4]", "f32[23,23,4,2]", "f32[?,?,?,2]"],
        &format!("window={{size=23x23 pad=11_11x11_11 stride=2x2 lhs_dilate=23x23}}, {LAST}"),
    );
    for [found, wanted] in results(&many, widest(), &[&[1, 3, 4]], &|_| {}) {
        assert!(are_near(&found, &wanted));
    }
    let wide = program(
        ["f32[?,?,?,4]", "f32[2,2,4,2]", "f32[?,?,?,2]"],
        &format!("window={{size=2x2 pad=150_150x150_150 stride=100x100}}, {LAST}"),
    );
    for [found, wanted] in results(&wide, widest(), &[&[1, 3, 4]], &|_| {}) {
        assert!(are_near(&found, &wanted));
    }
}

/// Images whose number alone is open, also where the kernel is not finite and its border must not count.
#[test]
fn images_are_convolved_one_by_one() {
    let text = "HloModule m
        ENTRY e {
          x = f32[?,9,7,4] parameter(0)
          w = f32[3,3,4,6] parameter(1)
          ROOT y = f32[?,9,7,6] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
        }";
    let module = read(text).expect("a program");
    let executable = compile(&module, &Options::default()).expect("compiled");
    let folder = folder("images");
    let linked = LinkedObject::new(&module, IsaLevel::Native, &folder).expect("an object");
    for (batch, special) in [(1, None), (3, None), (0, None), (2, Some(f64::INFINITY))] {
        let mut inputs = drawn(&module, &[batch]);
        if let Some(special) = special {
            let number = Scalar::Float(special);
            inputs[1].set_scalar(5, number).expect("an element");
        }
        let buffers: Vec<Tensor> = inputs.iter().cloned().map(Into::into).collect();
        let expected = executable.run(&buffers).expect("it runs");
        let shape = expected[0].shape().clone();
        let outputs = linked.run(&[batch], &inputs, &[shape]).expect("it runs");
        let (found, wanted) = (outputs[0].as_f32s(), expected[0].as_slice::<f32>());
        let (found, wanted) = (found.expect("floats"), wanted.expect("floats"));
        let pairs = found.iter().zip(wanted);
        let near =
            |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() < 1e-4;
        assert!(pairs.clone().all(near), "{batch} {special:?}");
        assert_eq!(found.len(), wanted.len());
    }
    let _ = std::fs::remove_dir_all(folder);
}
