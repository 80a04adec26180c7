//! What depends on constants alone is computed when an object is compiled.

use super::{drawn, folder, run, run_here, widest};
use tegula::{Architecture, IsaLevel, ObjectOptions, compile, compile_object};
use tegula_ir::Module;
use tegula_tests::judge::{MIDDLE, OLDEST};
use tegula_tests::object::LinkedObject;
use tegula_tests::read;

/// Weights of 8 bits, with their scales: `w[96,160]`, `s[160]`.
fn weights() -> String {
    let list = |numbers: &mut dyn Iterator<Item = String>| numbers.collect::<Vec<_>>().join(",");
    let rows = (0..96).map(|row: i32| {
        let row = (0..160).map(|column| ((row * 37 + column * 11) % 255 - 127).to_string());
        format!("{{{}}}", list(&mut row.into_iter()))
    });
    let rows = list(&mut rows.into_iter());
    let scales = list(&mut (0..160).map(|column| format!("0.0{}", 11 + column)));
    format!(
        "w = s8[96,160] constant({{{rows}}})
         s = f32[160] constant({{{scales}}})
         f = f32[96,160] convert(w)
         b = f32[96,160] broadcast(s), dimensions={{1}}
         d = f32[96,160] multiply(f, b)"
    )
}

const CONTRACTED: &str = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";

fn program(body: &str) -> Module {
    let text = format!("HloModule m\n{body}");
    read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The bytes of the arena and of the object.
fn sizes(module: &Module, cpu: IsaLevel) -> [usize; 2] {
    let object = compile_object(module, &ObjectOptions::new("m", cpu)).expect("an object");
    let mut lines = object.header.lines().rev();
    let arena = lines.find_map(|line| line.strip_prefix("#define M_ARENA_BYTES "));
    let arena = arena.map_or(0, |bytes| bytes.parse().expect("a number"));
    [arena, object.bytes.len()]
}

/// An object gives the bits of a run at each level.
fn is_as_a_run(module: &Module, name: &str) {
    for cpu in [widest(), MIDDLE, OLDEST] {
        let inputs = drawn(module, &[]);
        let found = run(module, &inputs, cpu, &format!("constants-{name}")).expect(name);
        let expected = run_here(module, &inputs, cpu);
        for (number, (found, wanted)) in found.iter().zip(&expected).enumerate() {
            assert!(
                found.bytes() == wanted.bytes(),
                "{name} {cpu}: result {number}"
            );
        }
    }
}

/// Weights that are made floats are floats in the object: a call needs no memory for them.
#[test]
fn weights_are_made_floats_once() {
    let weights = weights();
    let module = program(&format!(
        "ENTRY e {{ x = f32[8,96] parameter(0)\n{weights}
           t = f32[96,160] tanh(d)
           ROOT y = f32[8,160] dot(x, t), {CONTRACTED} }}"
    ));
    is_as_a_run(&module, "weights");
    let [arena, bytes] = sizes(&module, widest());
    assert!(arena < 96 * 160 * 4, "{arena}");
    // The weights of 8 bits are not there any more.
    let given = program(&format!(
        "ENTRY e {{ x = f32[8,96] parameter(0)  t = f32[96,160] parameter(1)
           ROOT y = f32[8,160] dot(x, t), {CONTRACTED} }}"
    ));
    let [_, without] = sizes(&given, widest());
    let more = bytes - without;
    assert!(
        (96 * 160 * 4..96 * 160 * 4 + 12_000).contains(&more),
        "{more}"
    );
}

/// In a loop, in a branch, of a product of constants, and of a sort.
#[test]
fn constants_inside_of_loops_are_computed_once() {
    let weights = weights();
    let state = "s32[], f32[8,96]";
    let module = program(&format!(
        "less {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }}
         more {{ v = ({state}) parameter(0)  i = s32[] get-tuple-element(v), index=0  e = s32[] constant(3)
           ROOT c = pred[] compare(i, e), direction=LT }}
         even {{ x = f32[8,96] parameter(0)\n{weights}
           t = f32[96,160] cosine(d)  y = f32[8,160] dot(x, t), {CONTRACTED}
           ROOT r = f32[8,96] slice(y), slice={{[0:8],[7:103]}} }}
         odd {{ x = f32[8,96] parameter(0)  ROOT r = f32[8,96] negate(x) }}
         turn {{ v = ({state}) parameter(0)  i = s32[] get-tuple-element(v), index=0
           x = f32[8,96] get-tuple-element(v), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
           {weights}
           o = f32[96,160] sort(d), dimensions={{0}}, to_apply=less
           p = f32[96,96] dot(o, f), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
           q = f32[96,96] tanh(p)
           y = f32[8,96] dot(x, q), {CONTRACTED}
           two = s32[] constant(2)  z = s32[] remainder(i, two)
           n = f32[8,96] conditional(z, y, y), branch_computations={{even, odd}}
           ROOT t = ({state}) tuple(j, n) }}
         ENTRY e {{ x = f32[8,96] parameter(0)  z = s32[] constant(0)  t = ({state}) tuple(z, x)
           l = ({state}) while(t), condition=more, body=turn
           ROOT y = f32[8,96] get-tuple-element(l), index=1 }}"
    ));
    is_as_a_run(&module, "loop");
    let [arena, _] = sizes(&module, widest());
    assert!(arena < 96 * 96 * 4, "{arena}");
}

/// The bits of a constant under another type have its place, so that their copy is none.
#[test]
fn bits_of_constants_are_read_as_another_type() {
    let module = program(
        "ENTRY e {
         c = s32[] constant(1)
         b = bf16[2] bitcast-convert(c)
         f = pred[2] is-finite(b)
         one = bf16[] constant(1)
         all = bf16[2] broadcast(one), dimensions={}
         s = bf16[2] select(f, b, all)
         ROOT r = (s32[], bf16[2]) tuple(c, s) }",
    );
    is_as_a_run(&module, "bits");
}

/// A table of a function that is made of nothing becomes a constant; a number that is repeated does not, nor does a
/// table that is large.
#[test]
fn only_what_is_small_beside_its_sources_is_kept() {
    let table = |rows: usize| {
        program(&format!(
            "ENTRY e {{ x = f32[{rows},64] parameter(0)  i = f32[{rows},64] iota(), iota_dimension=0
               h = f32[] constant(0.25)  q = f32[{rows},64] broadcast(h), dimensions={{}}
               a = f32[{rows},64] multiply(i, q)  c = f32[{rows},64] cosine(a)  p = f32[{rows},64] power(c, i)
               t = f32[64,{rows}] transpose(p), dimensions={{1,0}}
               ROOT y = f32[{rows},{rows}] dot(x, t), {CONTRACTED} }}"
        ))
    };
    is_as_a_run(&table(96), "table");
    let [_, bytes] = sizes(&table(96), widest());
    let [arena, larger] = sizes(&table(2048), widest());
    assert!(bytes > larger + 96 * 64 * 3, "{bytes} {larger}");
    assert!(arena >= 2048 * 64 * 4, "{arena}");
    let repeated = program(&format!(
        "ENTRY e {{ x = f32[8,96] parameter(0)  s = f32[96] parameter(1)
           h = f32[] constant(0.25)  w = f32[96,160] broadcast(h), dimensions={{}}
           b = f32[96,160] broadcast(s), dimensions={{0}}  d = f32[96,160] add(w, b)
           ROOT y = f32[8,160] dot(x, d), {CONTRACTED} }}"
    ));
    is_as_a_run(&repeated, "repeated");
}

/// Sizes that are open have no part in a constant.
#[test]
fn constants_of_programs_with_open_sizes_are_computed_once() {
    let weights = weights();
    let module = program(&format!(
        "ENTRY e {{ x = f32[?,96] parameter(0)\n{weights}
           t = f32[96,160] tanh(d)
           ROOT y = f32[?,160] dot(x, t), {CONTRACTED} }}"
    ));
    let folder = folder("constants-open");
    let options = tegula::Options {
        cpu: widest(),
        ..tegula::Options::default()
    };
    let executable = compile(&module, &options).expect("compiled");
    let linked = LinkedObject::new(&module, widest(), &folder).expect("an object");
    for size in [1, 2, 9, 70] {
        let inputs = drawn(&module, &[size]);
        let buffers: Vec<tegula::Tensor> = inputs.iter().cloned().map(Into::into).collect();
        let expected = executable
            .run(&buffers)
            .expect("it runs")
            .remove(0)
            .into_literal();
        let outputs = linked.run(&[size], &inputs, &[expected.shape().clone()]);
        let outputs = outputs.expect("it runs");
        assert!(outputs[0].bytes() == expected.bytes(), "{size}");
    }
    let _ = std::fs::remove_dir_all(folder);
}

/// For an architecture that is not this machine's, what every machine computes alike is computed here.
#[test]
fn what_is_exact_is_computed_for_other_architectures() {
    let other = match Architecture::HERE {
        Architecture::X86_64 => Architecture::Aarch64,
        Architecture::Aarch64 => Architecture::X86_64,
    };
    let weights = weights();
    let with = |function: &str| {
        program(&format!(
            "larger {{ a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT c = s32[] maximum(a, b) }}
             ENTRY e {{ x = s32[160,96] parameter(0)\n{weights}
               {function}
               i = s32[96,160] convert(m)  z = s32[] constant(-1000)
               r = s32[96] reduce(i, z), dimensions={{1}}, to_apply=larger
               b96 = s32[160,96] broadcast(r), dimensions={{1}}
               ROOT y = s32[160,96] add(x, b96) }}"
        ))
    };
    for level in other.levels() {
        let bytes = |function| {
            let object = compile_object(&with(function), &ObjectOptions::new("m", level));
            object.expect("an object").bytes.len()
        };
        // The weights are not read any more once their sums are constants.
        let exact = bytes("m = f32[96,160] negate(d)");
        let function = bytes("m = f32[96,160] tanh(d)");
        assert!(exact < 96 * 160, "{exact}");
        assert!(function > 96 * 160, "{function}");
    }
}

/// What was computed goes to the file of constants.
#[test]
fn computed_constants_go_to_the_file() {
    let weights = weights();
    let module = program(&format!(
        "ENTRY e {{ x = f32[8,96] parameter(0)\n{weights}
           t = f32[96,160] tanh(d)
           ROOT y = f32[8,160] dot(x, t), {CONTRACTED} }}"
    ));
    let options = ObjectOptions {
        weights: true,
        ..ObjectOptions::new("m", OLDEST)
    };
    let object = compile_object(&module, &options).expect("an object");
    let file = object.weights.expect("a file").len();
    let all = 96 * 160 * 4;
    assert!((all..all + 4096).contains(&file), "{file}");
}
