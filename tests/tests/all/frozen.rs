//! Frozen inputs and constants: what depends on nothing else is computed by the first run,
//! and results are those of the definition, on purpose where the plan has a kept value share
//! its memory with others.

use tegula::{Arg, IsaLevel, Options, Tensor, compile};
use tegula_ir::Module;
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_tests::judge::{MIDDLE, OLDEST, Reference, Verdict};
use tegula_tests::random::Regime;

/// Numbers of few bits, so that results are exact.
fn numbers(ty: ElementType, dims: &[i64]) -> Literal {
    let shape = ArrayShape::new(ty, dims);
    let count: i64 = dims.iter().product();
    let bits = |i: i64| ((i * 2_654_435_761) >> 9) & 63;
    let bytes = |i: i64| match ty {
        ElementType::S8 => vec![(bits(i) - 32) as u8],
        ElementType::U64 => (bits(i) as u64).to_ne_bytes().to_vec(),
        ElementType::S32 => ((bits(i) - 32) as i32).to_ne_bytes().to_vec(),
        ElementType::BF16 => half::bf16::from_f32(bits(i) as f32 / 16.0 - 2.0)
            .to_ne_bytes()
            .to_vec(),
        _ => (bits(i) as f32 / 16.0 - 2.0).to_ne_bytes().to_vec(),
    };
    let bytes: Vec<u8> = (0..count).flat_map(bytes).collect();
    Literal::from_bytes(&shape, &bytes).expect("a literal")
}

fn read(text: &str) -> Module {
    let sum = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }";
    let text = format!("HloModule frozen\n{sum}\n{text}\n");
    tegula_tests::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// One array for each parameter.
fn inputs(module: &Module) -> Vec<Literal> {
    let parameters = module.entry_computation().parameters.iter();
    let inputs = parameters.map(|&p| {
        let shape = module[p].shape.as_array().expect("an array");
        numbers(shape.element_type, &shape.static_dims().expect("sizes"))
    });
    inputs.collect()
}

/// Freezes each set of inputs that these are the least and the most of.
fn check(text: &str, frozen: &[&[usize]]) {
    let module = read(text);
    let inputs = inputs(&module);
    let reference = Reference::new(&module, &inputs, Regime::Dyadic).expect("it has a meaning");
    for cpu in [IsaLevel::Native, MIDDLE, OLDEST] {
        for threads in [1, 2] {
            let options = Options {
                cpu,
                threads,
                ..Options::default()
            };
            for frozen in frozen {
                let verdict = reference.judge_frozen(&module, &inputs, &options, frozen);
                assert_eq!(
                    verdict,
                    Ok(Verdict::Agrees),
                    "{frozen:?} {options:?}\n{text}"
                );
            }
        }
    }
}

/// The bytes that a run takes with these inputs frozen.
fn peak(text: &str, frozen: &[usize]) -> i64 {
    let module = read(text);
    let inputs = inputs(&module);
    let mut executable = compile(&module, &Options::default()).expect("it compiles");
    for &input in frozen {
        let value = Tensor::from(inputs[input].clone());
        executable.freeze(input, value).expect("a parameter");
    }
    let shapes: Vec<&ArrayShape> = inputs.iter().map(Literal::shape).collect();
    let peak = executable.backend().peak_bytes(&shapes).expect("sizes");
    peak.expect("the CPU knows it")
}

#[test]
fn a_chain_of_weights_alone() {
    let text = "ENTRY main { x = f32[4,96] parameter(0) w = f32[64,96] parameter(1) s = f32[64] parameter(2)
      m = f32[64] reverse(s), dimensions={0} b = f32[64,96] broadcast(m), dimensions={0}
      v = f32[64,96] multiply(w, b) t = f32[96,64] transpose(v), dimensions={1,0}
      r = f32[96,64] reverse(t), dimensions={0}
      ROOT d = f32[4,64] dot(x, r), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
    check(text, &[&[], &[1], &[2], &[1, 2], &[0, 1, 2]]);
    // What is kept is counted, and takes the place of the arena's.
    assert!(peak(text, &[1, 2]) >= 4 * (96 * 64 + 4 * 64));
}

/// What a run makes of a kept value lies where the plan has the value: it must not be
/// written over.
#[test]
fn what_is_kept_is_not_written_over() {
    let lt = "lt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }";
    let loops =
        "less { p = (s32[], f32[40,30]) parameter(0) i = s32[] get-tuple-element(p), index=0
      n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
    next { p = (s32[], f32[40,30]) parameter(0) i = s32[] get-tuple-element(p), index=0
      one = s32[] constant(1) j = s32[] add(i, one) s = f32[40,30] get-tuple-element(p), index=1
      t = f32[40,30] reverse(s), dimensions={0,1} h = f32[] constant(0.5)
      hb = f32[40,30] broadcast(h), dimensions={} u = f32[40,30] multiply(t, hb)
      v = f32[40,30] subtract(s, u) ROOT r = (s32[], f32[40,30]) tuple(j, v) }";
    // A kept value is a loop's first state; and is read again after the loop.
    check(
        &format!(
            "{lt} {loops} ENTRY main {{ w = f32[30,40] parameter(0) x = f32[40,30] parameter(1)
      t = f32[40,30] transpose(w), dimensions={{1,0}} a = f32[40,30] reverse(t), dimensions={{1}}
      k = f32[40,30] sort(a), dimensions={{0}}, to_apply=lt
      z = s32[] constant(0) p = (s32[], f32[40,30]) tuple(z, k)
      l = (s32[], f32[40,30]) while(p), condition=less, body=next
      e = f32[40,30] get-tuple-element(l), index=1 f = f32[40,30] add(e, x)
      ROOT r = f32[40,30] add(f, k) }}"
        ),
        &[&[0], &[0, 1]],
    );
    // A part of a kept value is updated; a kernel works in its place; it is a result.
    check(
        "ENTRY main { w = f32[30,40] parameter(0) x = f32[1,30] parameter(1) i = s32[] parameter(2)
      t = f32[40,30] transpose(w), dimensions={1,0} a = f32[40,30] sort(t), dimensions={0}, to_apply=lt
      z = s32[] constant(0) u = f32[40,30] dynamic-update-slice(a, x, i, z)
      ROOT r = (f32[40,30], f32[40,30]) tuple(u, a) }
    lt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }",
        &[&[0], &[0, 2], &[0, 1, 2]],
    );
    check(
        "ENTRY main { w = f32[30,40] parameter(0) x = f32[40,30] parameter(1)
      t = f32[40,30] transpose(w), dimensions={1,0} a = f32[40,30] sort(t), dimensions={0}, to_apply=lt
      b = f32[40,30] add(a, x) c = f32[40,30] sort(b), dimensions={1}, to_apply=gt
      ROOT d = f32[40,30] multiply(c, x) }
    lt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
    gt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GT }",
        &[&[0], &[1]],
    );
}

/// Sorts have code of their own, by their order in the program.
#[test]
fn sorts_keep_their_comparators() {
    check(
        "ENTRY main { w = f32[64] parameter(0) x = f32[64] parameter(1)
      a = f32[64] sort(x), dimensions={0}, to_apply=gt b = f32[64] sort(w), dimensions={0}, to_apply=lt
      c = f32[64] add(a, b) ROOT d = f32[64] sort(c), dimensions={0}, to_apply=gt }
    lt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
    gt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GT }",
        &[&[0], &[1], &[0, 1]],
    );
}

#[test]
fn a_loop_keeps_what_it_does_not_change() {
    for (ty, scale) in [("f32", "0.0625"), ("bf16", "0.0625")] {
        check(
            &format!(
                "less {{ p = (s32[], {ty}[3,96], {ty}[96,96], f32[96,96]) parameter(0)
      i = s32[] get-tuple-element(p), index=0 n = s32[] constant(3)
      ROOT r = pred[] compare(i, n), direction=LT }}
    next {{ p = (s32[], {ty}[3,96], {ty}[96,96], f32[96,96]) parameter(0)
      i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1) j = s32[] add(i, one)
      s = {ty}[3,96] get-tuple-element(p), index=1 w = {ty}[96,96] get-tuple-element(p), index=2
      m = f32[96,96] get-tuple-element(p), index=3 c = {ty}[96,96] convert(m)
      k = {ty}[96,96] reverse(c), dimensions={{0}}
      d = {ty}[3,96] dot(s, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
      e = {ty}[3,96] dot(s, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
      a = {ty}[3,96] add(d, e)
      q = {ty}[] constant({scale}) qb = {ty}[3,96] broadcast(q), dimensions={{}}
      g = {ty}[3,96] multiply(a, qb) f = {ty}[3,96] floor(g)
      lo = {ty}[] constant(-2) hi = {ty}[] constant(2) v = {ty}[3,96] clamp(lo, f, hi)
      ROOT r = (s32[], {ty}[3,96], {ty}[96,96], f32[96,96]) tuple(j, v, w, m) }}
    ENTRY main {{ x = {ty}[3,96] parameter(0) w = {ty}[96,96] parameter(1) m = f32[96,96] parameter(2)
      z = s32[] constant(0)
      t = (s32[], {ty}[3,96], {ty}[96,96], f32[96,96]) tuple(z, x, w, m)
      l = (s32[], {ty}[3,96], {ty}[96,96], f32[96,96]) while(t), condition=less, body=next
      ROOT r = {ty}[3,96] get-tuple-element(l), index=1 }}"
            ),
            &[&[1], &[2], &[1, 2], &[0, 1, 2]],
        );
    }
}

/// Integers, on either side, of few and many rows, in all forms; and once for several steps.
#[test]
fn products_of_bytes() {
    for rows in [1, 3, 40] {
        for side in [0, 1] {
            for form in [0, 1] {
                let (x, w) = (
                    format!("s8[{rows},160]"),
                    ["s8[70,160]", "s8[160,70]"][form],
                );
                let depth = 1 - form;
                let dot = match side {
                    0 => format!(
                        "s32[{rows},70] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{depth}}}"
                    ),
                    _ => format!(
                        "s32[70,{rows}] dot(w, x), lhs_contracting_dims={{{depth}}}, rhs_contracting_dims={{1}}"
                    ),
                };
                let result = dot.split(' ').next().unwrap_or_default();
                check(
                    &format!(
                        "ENTRY main {{ x = {x} parameter(0) w = {w} parameter(1) y = {x} parameter(2)
      a = {dot} b = {} ROOT r = {result} subtract(a, b) }}",
                        dot.replace("x", "y")
                    ),
                    &[&[1], &[0], &[0, 1], &[1, 2]],
                );
            }
        }
    }
}

#[test]
fn products_in_a_batch_and_convolutions() {
    check(
        "ENTRY main { x = s8[5,6,33] parameter(0) w = s8[5,40,33] parameter(1)
      ROOT d = s32[5,6,40] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2} }",
        &[&[1], &[0]],
    );
    for ty in ["f32", "bf16"] {
        check(
            &format!(
                "ENTRY main {{ x = {ty}[2,9,9,8] parameter(0) w = {ty}[20,8,3,3] parameter(1) v = {ty}[3,3,8,20] parameter(2)
      a = {ty}[2,9,9,20] convolution(x, w), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_oi01->b01f
      b = {ty}[2,9,9,20] convolution(x, v), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f
      c = {ty}[2,20,19,19] convolution(x, v), window={{size=3x3 pad=2_2x2_2 lhs_dilate=2x2}}, dim_labels=b01f_01io->bf01
      ROOT r = ({ty}[2,9,9,20], {ty}[2,9,9,20], {ty}[2,20,19,19]) tuple(a, b, c) }}"
            ),
            &[&[1], &[2], &[1, 2]],
        );
    }
}

/// Numbers that pairs of bf16 would count as zero are still multiplied exactly.
#[test]
fn small_numbers_of_weights() {
    let module = read(
        "ENTRY main { x = bf16[20,64] parameter(0) w = bf16[40,64] parameter(1)
      ROOT d = f32[20,40] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1} }",
    );
    let mut inputs = inputs(&module);
    // 2^-130, which times 2^100 is a normal number.
    inputs[1].bytes_mut()[..2].copy_from_slice(&8u16.to_ne_bytes());
    let large = half::bf16::from_f32(2f32.powi(100)).to_bits();
    inputs[0].bytes_mut()[..2].copy_from_slice(&large.to_ne_bytes());
    let reference = Reference::new(&module, &inputs, Regime::Dyadic).expect("it has a meaning");
    let options = Options::default();
    let verdict = reference.judge_frozen(&module, &inputs, &options, &[1]);
    assert_eq!(verdict, Ok(Verdict::Agrees));
}

/// A frozen input that a result takes over.
#[test]
fn what_a_result_takes_over() {
    let text = "HloModule taken, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main { w = f32[40,40] parameter(0) x = f32[40,40] parameter(1)
  t = f32[40,40] transpose(w), dimensions={1,0}
  d = f32[40,40] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[40,40] add(w, x) ROOT r = (f32[40,40], f32[40,40]) tuple(a, d) }";
    let module = tegula_tests::read(text).unwrap_or_else(|e| panic!("{e}"));
    let inputs = inputs(&module);
    let reference = Reference::new(&module, &inputs, Regime::Dyadic).expect("it has a meaning");
    for frozen in [&[0][..], &[1], &[0, 1]] {
        let verdict = reference.judge_frozen(&module, &inputs, &Options::default(), frozen);
        assert_eq!(verdict, Ok(Verdict::Agrees), "{frozen:?}");
    }
}

/// Random numbers are drawn by each run, from whatever state.
#[test]
fn random_numbers_are_not_kept() {
    check(
        "ENTRY main { s = u64[2] parameter(0) x = f32[64] parameter(1)
      g = (u64[2], u32[64]) rng-bit-generator(s), algorithm=rng_philox
      b = u32[64] get-tuple-element(g), index=1 n = u64[2] get-tuple-element(g), index=0
      ROOT r = (u32[64], u64[2], f32[64]) tuple(b, n, x) }",
        &[&[0], &[0, 1]],
    );
}

/// Each size has what is kept of its own.
#[test]
fn open_sizes() {
    let module = read(
        "ENTRY main { x = s8[?,64] parameter(0) w = s8[40,64] parameter(1)
      ROOT d = s32[?,40] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1} }",
    );
    let plain = compile(&module, &Options::default()).expect("it compiles");
    let mut frozen = compile(&module, &Options::default()).expect("it compiles");
    let weights = Tensor::from(numbers(ElementType::S8, &[40, 64]));
    frozen.freeze(1, weights.clone()).expect("a parameter");
    for rows in [1, 7, 40, 7, 1] {
        let x = Tensor::from(numbers(ElementType::S8, &[rows, 64]));
        let expected = plain.run(vec![Arg::Borrowed(&x), Arg::Borrowed(&weights)]);
        let results = frozen.run(vec![Arg::Borrowed(&x)]);
        assert_eq!(results.expect("a run"), expected.expect("a run"));
    }
}

/// What is made of a frozen input and an open size is another at each size, and so is what is made of that, although
/// its own sizes are known.
#[test]
fn what_depends_on_a_size_is_not_shared() {
    let module = read(
        "ENTRY main { x = f32[?,64] parameter(0) w = f32[64,64] parameter(1)
      n = s32[] get-dimension-size(x), dimensions={0} f = f32[] convert(n)
      b = f32[64,64] broadcast(f), dimensions={} s = f32[64,64] multiply(w, b)
      v = f32[64,64] dot(s, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT d = f32[?,64] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    );
    let plain = compile(&module, &Options::default()).expect("it compiles");
    let mut frozen = compile(&module, &Options::default()).expect("it compiles");
    let weights = Tensor::from(numbers(ElementType::F32, &[64, 64]));
    frozen.freeze(1, weights.clone()).expect("a parameter");
    for rows in [2, 3, 7, 2] {
        let x = Tensor::from(numbers(ElementType::F32, &[rows, 64]));
        let expected = plain.run(vec![Arg::Borrowed(&x), Arg::Borrowed(&weights)]);
        let results = frozen.run(vec![Arg::Borrowed(&x)]);
        assert_eq!(results.expect("a run"), expected.expect("a run"), "{rows}");
    }
}

/// An array of bytes as HLO has it: 40 rows of 600.
fn constant_bytes() -> String {
    let rows: Vec<String> = (0..40)
        .map(|i| {
            let row: Vec<String> = (0..600)
                .map(|k| ((i * 31 + k * 7) % 200 - 100).to_string())
                .collect();
            format!("{{{}}}", row.join(","))
        })
        .collect();
    format!("s8[40,600] constant({{{}}})", rows.join(","))
}

/// Constants are packed once with nothing frozen, where that is much.
#[test]
fn constants_are_packed_once() {
    let text = format!(
        "ENTRY main {{ x = s8[3,600] parameter(0) w = {}
      ROOT d = s32[3,40] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}} }}",
        constant_bytes()
    );
    check(&text, &[&[], &[0]]);
    assert!(peak(&text, &[]) > 40 * 600);
}

/// They are so for all sizes together, and so are sums of them, which a product of quantised numbers
/// multiplies by a zero point.
#[test]
fn constants_are_packed_once_for_all_sizes() {
    let text = |rows: &str| {
        format!(
            "plus {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }}
         ENTRY main {{ x = s8[{rows},600] parameter(0) zero = s32[] parameter(1) w = {}
           d = s32[{rows},40] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
           c = s32[40,600] convert(w) n = s32[] constant(0)
           r = s32[40] reduce(c, n), dimensions={{1}}, to_apply=plus
           z = s32[40] broadcast(zero), dimensions={{}} m = s32[40] multiply(r, z)
           b = s32[{rows},40] broadcast(m), dimensions={{1}} ROOT e = s32[{rows},40] subtract(d, b) }}",
            constant_bytes()
        )
    };
    let open = read(&text("?"));
    let open = compile(&open, &Options::default()).expect("it compiles");
    let zero = Tensor::from(numbers(ElementType::S32, &[]));
    for rows in [2, 7, 40, 7, 2] {
        let known = read(&text(&rows.to_string()));
        let known = compile(&known, &Options::default()).expect("it compiles");
        let x = Tensor::from(numbers(ElementType::S8, &[rows, 600]));
        let given = || vec![Arg::Borrowed(&x), Arg::Borrowed(&zero)];
        let results = open.run(given()).expect("a run");
        assert_eq!(results, known.run(given()).expect("a run"), "{rows}");
        let peak = open.backend().peak_bytes(&[x.shape(), zero.shape()]);
        assert!(peak.expect("sizes") > Some(40 * 600));
    }
}
