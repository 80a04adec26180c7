//! Objects give the results of a run, to the bit but where another library computes them: routines on whole
//! arrays, products and convolutions, loops.

use super::{distance, drawn, folder, run, run_here, widest};
use tegula::{Options, compile};
use tegula_ir::ArrayShape;
use tegula_tests::judge::{MIDDLE, OLDEST};
use tegula_tests::object::LinkedObject;
use tegula_tests::read;

/// Routines are the same functions as in a run: all types of products, borders whose kernels are
/// not finite, groups, and floats of 8 bits.
#[test]
fn routines_give_the_bits_of_a_run() {
    let programs = [
        (
            "f64",
            "x = f64[9,33] parameter(0)  y = f64[33,20] parameter(1)
          ROOT d = f64[9,20] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
        (
            "bf16",
            "x = bf16[40,70] parameter(0)  y = bf16[70,50] parameter(1)
          ROOT d = bf16[40,50] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
        (
            "turned",
            "x = f32[70,40] parameter(0)  y = f32[50,70] parameter(1)
          ROOT d = f32[40,50] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
        ),
        (
            "s8",
            "x = s8[40,70] parameter(0)  y = s8[70,50] parameter(1)
          ROOT d = s32[40,50] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
        (
            "small",
            "x = f32[500,3,4] parameter(0)  y = f32[500,4,3] parameter(1)
          ROOT d = f32[500,3,3] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0},
            lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        ),
        (
            "border",
            "x = f32[2,9,9,5] parameter(0)  y = f32[3,3,5,7] parameter(1)
          ROOT c = f32[2,9,9,7] convolution(x, y), window={size=3x3 pad=1_1x1_1},
            dim_labels=b01f_01io->b01f",
        ),
        (
            "infinite",
            "x = f32[2,9,9,5] parameter(0)  one = f32[3,3,5,7] parameter(1)
          zero = f32[] constant(0)  zeros = f32[3,3,5,7] broadcast(zero), dimensions={}
          y = f32[3,3,5,7] divide(one, zeros)
          ROOT c = f32[2,9,9,7] convolution(x, y), window={size=3x3 pad=1_1x1_1},
            dim_labels=b01f_01io->b01f",
        ),
        (
            "groups",
            "x = f32[2,9,9,32] parameter(0)  y = f32[3,3,1,32] parameter(1)
          ROOT c = f32[2,7,7,32] convolution(x, y), window={size=3x3},
            dim_labels=b01f_01io->b01f, feature_group_count=32",
        ),
        (
            "planes",
            "x = f32[2,32,20,20] parameter(0)  y = f32[32,1,3,3] parameter(1)
          ROOT c = f32[2,32,18,18] convolution(x, y), window={size=3x3},
            dim_labels=bf01_oi01->bf01, feature_group_count=32",
        ),
        (
            "f8",
            "x = f32[64] parameter(0)  y = f32[64] parameter(1)
          a = f8e4m3fn[64] convert(x)  b = f8e5m2[64] convert(y)
          c = f32[64] convert(a)  d = f32[64] convert(b)
          ROOT s = f32[64] add(c, d)",
        ),
    ];
    for (name, body) in programs {
        let text = format!("HloModule m\nENTRY e {{\n{body}\n}}");
        let module = read(&text).expect(name);
        for cpu in [widest(), MIDDLE, OLDEST] {
            let inputs = drawn(&module, &[]);
            let file = format!("routine-{name}-{cpu}");
            let outputs = run(&module, &inputs, cpu, &file).expect("an object");
            let expected = run_here(&module, &inputs, cpu);
            assert!(outputs[0].bytes() == expected[0].bytes(), "{name} {cpu}");
        }
    }
}

/// Operations on whole arrays: sorts by keys and by comparators of all kinds, selections, random bits,
/// factorisations and solves. The bits are those of a run on every level.
#[test]
fn routines_on_arrays_give_the_bits_of_a_run() {
    let lower = "lower { a = f32[] parameter(0)  b = f32[] parameter(1)
        ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER }";
    let by_first = "by_first {
        a = s32[] parameter(0)  b = s32[] parameter(1)
        c = f64[] parameter(2)  d = f64[] parameter(3)
        ROOT e = pred[] compare(a, b), direction=GT }";
    let odd = "odd { a = f32[] parameter(0)  b = f32[] parameter(1)
        s = f32[] sine(a)  t = f32[] cosine(b)
        ROOT c = pred[] compare(s, t), direction=LT }";
    let positive = |ty: &str, n: usize| {
        format!(
            "x = {ty}[2,{n},{n}] parameter(0)
             p = {ty}[2,{n},{n}] dot(x, x), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
               lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
             i = s32[{n},{n}] iota(), iota_dimension=0  j = s32[{n},{n}] iota(), iota_dimension=1
             d = pred[{n},{n}] compare(i, j), direction=EQ  e = {ty}[{n},{n}] convert(d)
             f = {ty}[2,{n},{n}] broadcast(e), dimensions={{1,2}}
             a = {ty}[2,{n},{n}] add(p, f)"
        )
    };
    let mut programs: Vec<(String, &str, String)> = vec![
        (
            "sort".into(),
            lower,
            "x = f32[7,300] parameter(0)
             ROOT s = f32[7,300] sort(x), dimensions={1}, is_stable=true, to_apply=lower"
                .into(),
        ),
        (
            "sort-columns".into(),
            lower,
            "x = f32[40,9] parameter(0)
             ROOT s = f32[40,9] sort(x), dimensions={0}, to_apply=lower"
                .into(),
        ),
        (
            "sort-together".into(),
            by_first,
            "x = s32[5,70] parameter(0)  y = f64[5,70] parameter(1)
             ROOT s = (s32[5,70], f64[5,70]) sort(x, y), dimensions={1}, to_apply=by_first"
                .into(),
        ),
        (
            "sort-oddly".into(),
            odd,
            "x = f32[90] parameter(0)
             ROOT s = f32[90] sort(x), dimensions={0}, to_apply=odd"
                .into(),
        ),
        (
            "few".into(),
            "",
            "x = f32[6,500] parameter(0)
             ROOT t = (f32[6,9], s32[6,9]) topk(x), k=9, largest=true"
                .into(),
        ),
        (
            "many".into(),
            "",
            "x = s64[2,300] parameter(0)
             ROOT t = (s64[2,100], s32[2,100]) topk(x), k=100, largest=false"
                .into(),
        ),
    ];
    for algorithm in ["default", "three_fry", "philox"] {
        for bits in [
            "u32[3,5]", "u64[7]", "u8[4,6]", "s4[9]", "u16[0,3]", "s32[]",
        ] {
            programs.push((
                format!("{algorithm}-{}", &bits[..bits.find('[').unwrap_or(0)]),
                "",
                format!(
                    "x = u64[2] parameter(0)
                     ROOT r = (u64[2], {bits}) rng-bit-generator(x), algorithm=rng_{algorithm}"
                ),
            ));
        }
    }
    for ty in ["f32", "f64", "c64", "c128"] {
        for n in [1, 13, 40] {
            let positive = positive(ty, n);
            // Of complex numbers the product is not with the conjugate, but its real part is.
            if ty.starts_with('f') {
                for lower in ["true", "false"] {
                    programs.push((
                        format!("cholesky-{ty}-{n}-{lower}"),
                        "",
                        format!("{positive}\n ROOT c = {ty}[2,{n},{n}] cholesky(a), lower={lower}"),
                    ));
                }
            }
            for (flags, [rows, columns]) in [
                (
                    "left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
                    [n, 19],
                ),
                ("left_side=true, lower=false, transpose_a=ADJOINT", [n, 3]),
                ("left_side=false, lower=true, transpose_a=TRANSPOSE", [5, n]),
                (
                    "left_side=false, unit_diagonal=true, transpose_a=NO_TRANSPOSE",
                    [17, n],
                ),
            ] {
                programs.push((
                    format!("solve-{ty}-{n}-{rows}"),
                    "",
                    format!(
                        "{positive}\n b = {ty}[2,{rows},{columns}] parameter(1)
                         ROOT s = {ty}[2,{rows},{columns}] triangular-solve(a, b), {flags}"
                    ),
                ));
            }
            programs.push((
                format!("lu-{ty}-{n}"),
                "",
                format!(
                    "x = {ty}[3,{n},20] parameter(0)
                     ROOT l = ({ty}[3,{n},20], s32[3,{m}], s32[3,{n}]) custom-call(x),
                       custom_call_target=\"LuDecomposition\"",
                    m = n.min(20)
                ),
            ));
        }
    }
    for (number, (name, computation, body)) in programs.iter().enumerate() {
        let text = format!("HloModule m\n{computation}\nENTRY e {{\n{body}\n}}");
        let module = read(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        let levels = [widest(), MIDDLE, OLDEST];
        let cpu = levels[number % 3];
        let inputs = drawn(&module, &[]);
        let outputs = run(&module, &inputs, cpu, &format!("array-{name}"));
        let outputs = outputs.unwrap_or_else(|| panic!("{name} is no object"));
        let expected = run_here(&module, &inputs, cpu);
        for (found, wanted) in outputs.iter().zip(&expected) {
            assert!(found.bytes() == wanted.bytes(), "{name} {cpu}");
        }
    }
}

/// Fourier transforms give the bits of a run: lines as lanes, as matrices and as convolutions, few and many.
#[test]
fn transforms_are_those_of_a_run() {
    let mut programs = Vec::new();
    for (single, double) in [("f32", "c64"), ("f64", "c128")] {
        for (lines, n) in [
            (3, 1),
            (3, 8),
            (20, 30),
            (1, 64),
            (40, 64),
            (3, 97),
            (35, 100),
            (3, 256),
            (17, 256),
            (3, 1000),
            (18, 1009),
            (2, 2048),
        ] {
            programs.push(format!(
                "x = {double}[{lines},{n}] parameter(0)
                 a = {double}[{lines},{n}] fft(x), fft_type=FFT, fft_length={{{n}}}
                 ROOT b = {double}[{lines},{n}] fft(a), fft_type=IFFT, fft_length={{{lines},{n}}}"
            ));
        }
        for (lines, n) in [(4, 6), (4, 9), (4, 128), (1, 9), (1, 1000)] {
            let half = n / 2 + 1;
            let outer = if lines == 1 { 1 } else { 5 };
            programs.push(format!(
                "x = {single}[{outer},{lines},{n}] parameter(0)
                 a = {double}[{outer},{lines},{half}] fft(x), fft_type=RFFT, fft_length={{{lines},{n}}}
                 m = {double}[{outer},{lines},{half}] add(a, a)
                 ROOT b = {single}[{outer},{lines},{n}] fft(m), fft_type=IRFFT, fft_length={{{lines},{n}}}"
            ));
        }
    }
    for (number, body) in programs.iter().enumerate() {
        let module = read(&format!("HloModule m\nENTRY e {{\n{body}\n}}")).expect(body);
        for cpu in [widest(), MIDDLE, OLDEST] {
            let inputs = drawn(&module, &[]);
            let outputs = run(&module, &inputs, cpu, &format!("transform-{number}-{cpu}"));
            let outputs = outputs.unwrap_or_else(|| panic!("no object: {body}"));
            let expected = run_here(&module, &inputs, cpu);
            assert!(outputs[0].bytes() == expected[0].bytes(), "{cpu} {body}");
        }
    }
}

/// Functions of complex numbers are on the C library's, whose last bit may differ from a run's.
#[test]
fn complex_functions_agree_with_a_run() {
    let mut programs = Vec::new();
    for (single, double, tolerance) in [("f32", "c64", 2e-6), ("f64", "c128", 4e-15)] {
        for function in [
            "exponential",
            "log",
            "sine",
            "cosine",
            "tan",
            "tanh",
            "sqrt",
            "rsqrt",
            "cbrt",
            "logistic",
            "exponential-minus-one",
            "log-plus-one",
            "sign",
        ] {
            let text = format!("x = {double}[40] parameter(0) ROOT y = {double}[40] {function}(x)");
            programs.push((text, tolerance));
        }
        programs.push((
            format!(
                "x = {double}[40] parameter(0)  y = {double}[40] parameter(1)
                 p = {double}[40] power(x, y)  a = {single}[40] abs(p)  z = {single}[40] real(p)
                 ROOT c = {double}[40] complex(a, z)"
            ),
            tolerance,
        ));
    }
    for (number, (body, tolerance)) in programs.iter().enumerate() {
        let module = read(&format!("HloModule m\nENTRY e {{\n{body}\n}}")).expect(body);
        let levels = [widest(), MIDDLE, OLDEST];
        let cpu = levels[number % 3];
        let inputs = drawn(&module, &[]);
        let outputs = run(&module, &inputs, cpu, &format!("close-{number}"));
        let outputs = outputs.unwrap_or_else(|| panic!("no object: {body}"));
        let expected = run_here(&module, &inputs, cpu);
        let apart = distance(&outputs[0], &expected[0]);
        assert!(apart <= *tolerance, "{apart:.1e} {body}");
    }
}

/// Routines on arrays with open sizes: their scratch memory is known when sizes are.
#[test]
fn routines_on_arrays_have_open_sizes() {
    let lower = "lower { a = f32[] parameter(0)  b = f32[] parameter(1)
        ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER }";
    for body in [
        "x = f32[?,6] parameter(0)
         ROOT s = f32[?,6] sort(x), dimensions={0}, to_apply=lower",
        "x = f32[?,30] parameter(0)
         ROOT t = (f32[?,4], s32[?,4]) topk(x), k=4, largest=true",
        "x = f32[?,6] parameter(0)  y = f32[6,6] parameter(1)
         ROOT s = f32[?,6] triangular-solve(y, x), left_side=false, lower=true,
           transpose_a=NO_TRANSPOSE",
    ] {
        let module = read(&format!("HloModule m\n{lower}\nENTRY e {{\n{body}\n}}")).expect(body);
        let folder = folder("open-arrays");
        let options = Options {
            cpu: widest(),
            ..Options::default()
        };
        let executable = compile(&module, &options).expect("compiled");
        let linked = LinkedObject::new(&module, widest(), &folder).expect(body);
        for size in [0, 1, 5, 700] {
            let inputs = drawn(&module, &[size]);
            let buffers: Vec<tegula::Tensor> = inputs.iter().cloned().map(Into::into).collect();
            let expected = executable.run(&buffers).expect("it runs");
            let shapes: Vec<ArrayShape> = expected.iter().map(|r| r.shape().clone()).collect();
            let outputs = linked.run(&[size], &inputs, &shapes).expect("it runs");
            for (found, wanted) in outputs.iter().zip(expected) {
                let same = found.bytes() == wanted.into_literal().bytes();
                assert!(same, "{size}: {body}");
            }
        }
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// The state of a loop is in its own memory after any number of iterations, also of a loop inside of another one;
/// slices of an array are read in place.
#[test]
fn loops_give_the_bits_of_a_run() {
    // Neighbours are summed, so that an iteration needs all of the old state.
    let turned = "r = f32[2000] reverse(x), dimensions={0}
        h = f32[] constant(0.5)  hb = f32[2000] broadcast(h), dimensions={}
        y = f32[2000] multiply(r, hb)  n = f32[2000] add(y, x)";
    let inner = format!(
        "below {{ s = (s32[], s32[], f32[2000]) parameter(0)
           i = s32[] get-tuple-element(s), index=0  e = s32[] get-tuple-element(s), index=1
           ROOT c = pred[] compare(i, e), direction=LT }}
         turn {{ s = (s32[], s32[], f32[2000]) parameter(0)
           i = s32[] get-tuple-element(s), index=0  e = s32[] get-tuple-element(s), index=1
           x = f32[2000] get-tuple-element(s), index=2  one = s32[] constant(1)  j = s32[] add(i, one)
           {turned}
           ROOT t = (s32[], s32[], f32[2000]) tuple(j, e, n) }}"
    );
    let outer = "turns { s = (s32[], s32[], f32[2000]) parameter(0)
           i = s32[] get-tuple-element(s), index=0  e = s32[] get-tuple-element(s), index=1
           x = f32[2000] get-tuple-element(s), index=2  one = s32[] constant(1)  j = s32[] add(i, one)
           z = s32[] constant(0)  t = (s32[], s32[], f32[2000]) tuple(z, i, x)
           w = (s32[], s32[], f32[2000]) while(t), condition=below, body=turn
           y = f32[2000] get-tuple-element(w), index=2  n = f32[2000] reverse(y), dimensions={0}
           ROOT r = (s32[], s32[], f32[2000]) tuple(j, e, n) }";
    let slabs = "more { s = (s32[], f32[8,64], f32[6,64,64]) parameter(0)
           i = s32[] get-tuple-element(s), index=0  e = s32[] constant(6)
           ROOT c = pred[] compare(i, e), direction=LT }
         layer { s = (s32[], f32[8,64], f32[6,64,64]) parameter(0)
           i = s32[] get-tuple-element(s), index=0  x = f32[8,64] get-tuple-element(s), index=1
           w = f32[6,64,64] get-tuple-element(s), index=2  z = s32[] constant(0)
           m = f32[1,64,64] dynamic-slice(w, i, z, z), dynamic_slice_sizes={1,64,64}
           v = f32[64,64] reshape(m)
           d = f32[8,64] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
           y = f32[8,64] tanh(d)  one = s32[] constant(1)  j = s32[] add(i, one)
           ROOT t = (s32[], f32[8,64], f32[6,64,64]) tuple(j, y, w) }
         ENTRY e { x = f32[8,64] parameter(0)  w = f32[6,64,64] parameter(1)  z = s32[] constant(0)
           t = (s32[], f32[8,64], f32[6,64,64]) tuple(z, x, w)
           l = (s32[], f32[8,64], f32[6,64,64]) while(t), condition=more, body=layer
           ROOT y = f32[8,64] get-tuple-element(l), index=1 }";
    let mut programs = vec![("slabs".to_owned(), format!("HloModule m\n{slabs}"))];
    programs.extend(loops_of_small_steps());
    for body in ["turn", "turns"] {
        for count in 0..4 {
            let text = format!(
                "HloModule m\n{inner}\n{outer}
                 ENTRY e {{ x = f32[2000] parameter(0)  z = s32[] constant(0)  n = s32[] constant({count})
                   k = s32[] parameter(1)  q = s32[] and(k, z)  p = s32[] add(n, q)
                   t = (s32[], s32[], f32[2000]) tuple(z, p, x)
                   w = (s32[], s32[], f32[2000]) while(t), condition=below, body={body}
                   ROOT y = f32[2000] get-tuple-element(w), index=2 }}"
            );
            programs.push((format!("{body}-{count}"), text));
        }
    }
    for (name, text) in programs {
        let module = read(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        let inputs = drawn(&module, &[]);
        let outputs = run(&module, &inputs, widest(), &format!("loop-{name}"));
        let outputs = outputs.unwrap_or_else(|| panic!("{name} is no object"));
        let expected = run_here(&module, &inputs, widest());
        for (found, wanted) in outputs.iter().zip(&expected) {
            assert!(found.bytes() == wanted.bytes(), "{name}");
        }
    }
}

/// Loops that are functions of their own, where a sum of a few numbers is in another order than a kernel's: alone, with
/// a loop and a branch inside, inside of a loop whose state is swapped, and of a slice that is read in place.
fn loops_of_small_steps() -> Vec<(String, String)> {
    let step = |state: &str, next: &str| {
        format!(
            "sum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
             more {{ s = (s32[], f32[10]{state}) parameter(0)
               i = s32[] get-tuple-element(s), index=0  e = s32[] constant(7)
               ROOT c = pred[] compare(i, e), direction=LT }}
             less {{ v = f32[10] parameter(0)  ROOT w = f32[10] negate(v) }}
             same {{ v = f32[10] parameter(0)  ROOT w = f32[10] cosine(v) }}
             step {{ s = (s32[], f32[10]{state}) parameter(0)
               i = s32[] get-tuple-element(s), index=0  v = f32[10] get-tuple-element(s), index=1
               one = s32[] constant(1)  j = s32[] add(i, one)  z = f32[] constant(0)
               d = f32[] dot(v, v), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
               r = f32[] reduce(v, z), dimensions={{0}}, to_apply=sum  q = f32[] divide(r, d)
               b = f32[10] broadcast(q), dimensions={{}}  m = f32[10] multiply(b, v)
               two = s32[] constant(2)  o = s32[] remainder(i, two)
               n = f32[10] conditional(o, m, m), branch_computations={{less, same}}
               {next} }}"
        )
    };
    let alone = format!(
        "HloModule m\n{}
         ENTRY e {{ v = f32[10] parameter(0)  z = s32[] constant(0)  t = (s32[], f32[10]) tuple(z, v)
           l = (s32[], f32[10]) while(t), condition=more, body=step
           ROOT y = f32[10] get-tuple-element(l), index=1 }}",
        step("", "ROOT t = (s32[], f32[10]) tuple(j, n)")
    );
    // A row of a table that is chosen when the program runs, added in each step of the inner loop.
    let row = "k = f32[1,2000] get-tuple-element(s), index=2
        f = f32[1,10] slice(k), slice={[0:1], [0:10]}  g = f32[10] reshape(f)  h = f32[10] add(n, g)
        ROOT t = (s32[], f32[10], f32[1,2000]) tuple(j, h, k)";
    let inside = format!(
        "HloModule m\n{}
         turns {{ s = (s32[], f32[2000], f32[6,2000]) parameter(0)
           i = s32[] get-tuple-element(s), index=0  e = s32[] constant(5)
           ROOT c = pred[] compare(i, e), direction=LT }}
         turn {{ s = (s32[], f32[2000], f32[6,2000]) parameter(0)
           i = s32[] get-tuple-element(s), index=0  x = f32[2000] get-tuple-element(s), index=1
           w = f32[6,2000] get-tuple-element(s), index=2  one = s32[] constant(1)  j = s32[] add(i, one)
           z = s32[] constant(0)  k = f32[1,2000] dynamic-slice(w, i, z), dynamic_slice_sizes={{1,2000}}
           v = f32[10] slice(x), slice={{[7:17]}}
           t = (s32[], f32[10], f32[1,2000]) tuple(z, v, k)
           l = (s32[], f32[10], f32[1,2000]) while(t), condition=more, body=step
           y = f32[10] get-tuple-element(l), index=1
           r = f32[2000] reverse(x), dimensions={{0}}  a = f32[2000] add(r, x)
           n = f32[2000] dynamic-update-slice(a, y, i)
           ROOT u = (s32[], f32[2000], f32[6,2000]) tuple(j, n, w) }}
         ENTRY e {{ x = f32[2000] parameter(0)  w = f32[6,2000] parameter(1)  z = s32[] constant(0)
           t = (s32[], f32[2000], f32[6,2000]) tuple(z, x, w)
           l = (s32[], f32[2000], f32[6,2000]) while(t), condition=turns, body=turn
           ROOT y = f32[2000] get-tuple-element(l), index=1 }}",
        step(", f32[1,2000]", row)
    );
    let programs = [("small", alone), ("small-inside", inside)];
    programs
        .map(|(name, text)| (name.to_owned(), text))
        .to_vec()
}

/// Products in loops are made ready once: several in an iteration, in a loop inside of another one, in a
/// branch, with a weight that is a constant or a parameter, and where the loop does nothing.
#[test]
fn products_in_loops_give_the_bits_of_a_run() {
    let state = "s = (s32[], s32[], f32[4,40], f32[40,40]) parameter(0)
        i = s32[] get-tuple-element(s), index=0  e = s32[] get-tuple-element(s), index=1
        x = f32[4,40] get-tuple-element(s), index=2  w = f32[40,40] get-tuple-element(s), index=3
        one = s32[] constant(1)  j = s32[] add(i, one)";
    let next = "ROOT t = (s32[], s32[], f32[4,40], f32[40,40]) tuple(j, e, y, w)";
    let dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    let rows: Vec<String> = (0..40)
        .map(|row| {
            let row: Vec<String> = (0..40)
                .map(|column| format!("{}", ((row * 7 + column * 5) % 11) as f64 / 64.0))
                .collect();
            format!("{{{}}}", row.join(","))
        })
        .collect();
    let constant = format!("f32[40,40] constant({{{}}})", rows.join(","));
    let bodies = [
        (
            "parameter",
            format!("d = f32[4,40] dot(x, w), {dot}  y = f32[4,40] tanh(d)"),
        ),
        (
            "constant",
            format!(
                "c = {constant}  d = f32[4,40] dot(x, c), {dot}  z = f32[4,40] tanh(d)
                 f = f32[4,40] dot(z, w), {dot}  y = f32[4,40] cosine(f)"
            ),
        ),
        (
            "branch",
            "two = s32[] constant(2)  r = s32[] remainder(i, two)
             b = (f32[4,40], f32[40,40]) tuple(x, w)
             y = f32[4,40] conditional(r, b, b), branch_computations={even, odd}"
                .to_owned(),
        ),
    ];
    let branches = format!(
        "even {{ b = (f32[4,40], f32[40,40]) parameter(0)
           x = f32[4,40] get-tuple-element(b), index=0  w = f32[40,40] get-tuple-element(b), index=1
           d = f32[4,40] dot(x, w), {dot}  ROOT y = f32[4,40] tanh(d) }}
         odd {{ b = (f32[4,40], f32[40,40]) parameter(0)
           x = f32[4,40] get-tuple-element(b), index=0  ROOT y = f32[4,40] negate(x) }}"
    );
    let below = format!("below {{ {state}  ROOT c = pred[] compare(i, e), direction=LT }}");
    for (name, body) in bodies {
        let turn = format!("turn {{ {state}\n{body}\n{next} }}");
        let turns = format!(
            "turns {{ {state}  z = s32[] constant(0)
               u = (s32[], s32[], f32[4,40], f32[40,40]) tuple(z, j, x, w)
               l = (s32[], s32[], f32[4,40], f32[40,40]) while(u), condition=below, body=turn
               y = f32[4,40] get-tuple-element(l), index=2  {next} }}"
        );
        for (body, count) in [("turn", 0), ("turn", 50), ("turns", 30)] {
            let text = format!(
                "HloModule m\n{branches}\n{below}\n{turn}\n{turns}
                 ENTRY e {{ x = f32[4,40] parameter(0)  w = f32[40,40] parameter(1)  k = s32[] parameter(2)
                   z = s32[] constant(0)  n = s32[] constant({count})
                   q = s32[] and(k, z)  p = s32[] add(n, q)
                   t = (s32[], s32[], f32[4,40], f32[40,40]) tuple(z, p, x, w)
                   l = (s32[], s32[], f32[4,40], f32[40,40]) while(t), condition=below, body={body}
                   ROOT y = f32[4,40] get-tuple-element(l), index=2 }}"
            );
            let module = read(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
            let inputs = drawn(&module, &[]);
            let file = format!("ready-{name}-{body}-{count}");
            let outputs = run(&module, &inputs, widest(), &file);
            let outputs = outputs.unwrap_or_else(|| panic!("{name} is no object"));
            let expected = run_here(&module, &inputs, widest());
            assert!(
                outputs[0].bytes() == expected[0].bytes(),
                "{name} {body} {count}"
            );
        }
    }
}
