//! Kernels whose innermost dimension is shorter than a vector, rotations, whose pieces are, and
//! what goes through an array in steps.

use tegula_ir::Literal;
use tegula_tests::judge::assert_agrees;
use tegula_tests::random::Regime;
use tegula_tests::read;

/// A program of one array means on the CPU what the evaluator says.
fn holds(dims: &[i64], body: &str) {
    holds_with("", dims, body);
}

/// The same, with other computations.
fn holds_with(computations: &str, dims: &[i64], body: &str) {
    let list: Vec<String> = dims.iter().map(ToString::to_string).collect();
    let text = format!(
        "HloModule short {computations} ENTRY main {{ p = f32[{}] parameter(0)\n{body}\n}}",
        list.join(",")
    );
    let module = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let count: i64 = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|i| (i * 7 % 23) as f32 - 11.0).collect();
    let inputs = [Literal::from_f32s(dims, &values).expect("small")];
    assert_agrees(&module, &inputs, Regime::General);
}

#[test]
fn channels_that_go_last_only_in_the_result() {
    for (channels, width) in [(3, 33), (2, 16), (1, 40), (3, 15), (5, 20)] {
        holds(
            &[4, channels, 7, width],
            &format!(
                "e = f32[4,{channels},7,{width}] exponential(p)
                 c = f32[{channels}] iota(), iota_dimension=0
                 b = f32[4,{channels},7,{width}] broadcast(c), dimensions={{1}}
                 s = f32[4,{channels},7,{width}] subtract(e, b)
                 ROOT t = f32[4,7,{width},{channels}] transpose(s), dimensions={{0,2,3,1}}"
            ),
        );
    }
}

/// Each way round along each dimension.
#[test]
fn rotations_of_three_dimensions() {
    for [a, b, c] in [[9, 11, 48], [3, 4, 17], [2, 2, 2], [1, 5, 33]] {
        let shape = format!("f32[{a},{b},{c}]");
        let mut body = String::new();
        let mut sum = "p".to_owned();
        for (d, n) in [a, b, c].into_iter().enumerate() {
            for cut in [1, n - 1] {
                let range = |from: i64, to: i64| -> String {
                    let of = |(e, &n): (usize, &i64)| match e == d {
                        true => format!("[{from}:{to}]"),
                        false => format!("[0:{n}]"),
                    };
                    [a, b, c]
                        .iter()
                        .enumerate()
                        .map(of)
                        .collect::<Vec<_>>()
                        .join(",")
                };
                let part = |n: i64| -> String {
                    let of = |(e, &all): (usize, &i64)| if e == d { n } else { all }.to_string();
                    let dims: Vec<String> = [a, b, c].iter().enumerate().map(of).collect();
                    format!("f32[{}]", dims.join(","))
                };
                body += &format!(
                    "h{d}_{cut} = {} slice(p), slice={{{}}}
                     t{d}_{cut} = {} slice(p), slice={{{}}}
                     r{d}_{cut} = {shape} concatenate(t{d}_{cut}, h{d}_{cut}), dimensions={{{d}}}
                     s{d}_{cut} = {shape} add({sum}, r{d}_{cut})\n",
                    part(cut),
                    range(0, cut),
                    part(n - cut),
                    range(cut, n),
                );
                sum = format!("s{d}_{cut}");
                if n <= 2 {
                    break;
                }
            }
        }
        holds(
            &[a, b, c],
            &format!("{body} ROOT out = {shape} negate({sum})"),
        );
    }
}

/// What is put together along a dimension, each part its own function of the same array.
fn parts_along(dims: &[i64], dim: usize) {
    let list = |dims: &[i64]| -> String {
        let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
        dims.join(",")
    };
    let mut all = dims.to_vec();
    all[dim] *= 5;
    let part = list(dims);
    let operations = ["sine", "tanh", "negate", "exponential", "abs"];
    let mut body = String::new();
    for (i, op) in operations.into_iter().enumerate() {
        body += &format!("q{i} = f32[{part}] {op}(p)\n");
    }
    body += &format!(
        "c = f32[{0}] concatenate(q0, q1, q2, q3, q4), dimensions={{{dim}}}
         ROOT out = f32[{0}] multiply(c, c)",
        list(&all)
    );
    holds(dims, &body);
}

#[test]
fn parts_of_each_dimension() {
    for (dims, dim) in [
        (&[40, 1][..], 1),
        (&[3, 40, 1], 2),
        (&[40, 2], 1),
        (&[2, 3, 40], 0),
        (&[2, 3, 40], 1),
        (&[2, 3, 40], 2),
        (&[1, 33], 0),
        (&[17, 1, 5], 1),
    ] {
        parts_along(dims, dim);
    }
}

/// Each element is made in its own way, of three.
#[test]
fn three_parts_of_one_point() {
    holds(
        &[50, 3],
        "x = f32[50,1] slice(p), slice={[0:50],[0:1]}
         y = f32[50,1] slice(p), slice={[0:50],[1:2]}
         z = f32[50,1] slice(p), slice={[0:50],[2:3]}
         sx = f32[50,1] sine(x)
         yz = f32[50,1] multiply(y, z)
         ROOT c = f32[50,3] concatenate(yz, sx, y), dimensions={1}",
    );
}

/// Running products of a function, whose turns depend on one another.
#[test]
fn running_products_of_functions() {
    for (dims, window) in [
        ([30, 40], "size=1x40 pad=0_0x39_0"),
        ([40, 30], "size=40x1 pad=39_0x0_0"),
    ] {
        let shape = format!("f32[{},{}]", dims[0], dims[1]);
        let text = format!(
            "t = {shape} tanh(p) one = f32[] constant(1)
             ones = {shape} broadcast(one), dimensions={{}}
             f = {shape} add(t, ones)
             ROOT r = {shape} reduce-window(f, one), window={{{window}}}, to_apply=times"
        );
        holds_with(
            "times { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] multiply(a, b) }",
            &dims,
            &text,
        );
    }
}

/// Quotients and remainders as Python has them, of indices and of numbers.
#[test]
fn quotients_and_remainders() {
    holds(
        &[7, 45],
        "i = s32[7,45] iota(), iota_dimension=1
         n = s32[7,45] convert(p)
         k = s32[] constant(7) ks = s32[7,45] broadcast(k), dimensions={}
         q = s32[7,45] divide(i, ks) r = s32[7,45] remainder(n, ks)
         d = s32[7,45] divide(i, n) m = s32[7,45] remainder(i, n)
         a = s32[7,45] add(q, r) b = s32[7,45] add(d, m) s = s32[7,45] multiply(a, b)
         ROOT f = f32[7,45] convert(s)",
    );
}

/// Sums over dimensions that lie behind one another, of differences and in branches.
#[test]
fn sums_over_several_dimensions() {
    let plus = "plus { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }";
    for dims in [[3, 5, 7, 9], [2, 4, 1, 40], [4, 3, 17, 2]] {
        for (over, left) in [
            ("2,3", "0,1"),
            ("0,2,3", "1"),
            ("0,1", "2,3"),
            ("1,3", "0,2"),
        ] {
            let kept: Vec<&str> = left.split(',').collect();
            let kept: Vec<String> = kept
                .iter()
                .map(|d| dims[d.parse::<usize>().expect("a dimension")].to_string())
                .collect();
            let (shape, kept) = (
                format!("f32[{},{},{},{}]", dims[0], dims[1], dims[2], dims[3]),
                kept.join(","),
            );
            holds_with(
                plus,
                &dims,
                &format!(
                    "h = f32[] constant(3) hs = {shape} broadcast(h), dimensions={{}}
                     d = {shape} subtract(p, hs) n = {shape} negate(d) zero = f32[] constant(0)
                     ROOT r = f32[{kept}] reduce(n, zero), dimensions={{{over}}}, to_apply=plus"
                ),
            );
        }
    }
}

/// Elements of two arrays in turn, and of four, along each dimension.
#[test]
fn elements_in_turn() {
    for dims in [[5, 7, 48], [3, 32, 20], [40, 2, 3], [1, 1, 100], [2, 9, 5]] {
        for dim in 0..3 {
            let list = |dims: [i64; 3]| format!("f32[{},{},{}]", dims[0], dims[1], dims[2]);
            let padding = |low: i64, high: i64| -> String {
                let one = |d: usize| match d == dim {
                    true => format!("{low}_{high}_1"),
                    false => "0_0".to_owned(),
                };
                [one(0), one(1), one(2)].join("x")
            };
            let mut longer = dims;
            let mut body = "zero = f32[] constant(0)\n".to_owned();
            let mut last = "p".to_owned();
            for level in 0..2 {
                let shape = list(longer);
                longer[dim] *= 2;
                let twice = list(longer);
                body += &format!(
                    "f{level} = {shape} multiply({last}, {last})
                     a{level} = {twice} pad({last}, zero), padding={}
                     b{level} = {twice} pad(f{level}, zero), padding={}
                     s{level} = {twice} add(a{level}, b{level})\n",
                    padding(0, 1),
                    padding(1, 0),
                );
                last = format!("s{level}");
            }
            let shape = list(longer);
            holds(&dims, &format!("{body} ROOT out = {shape} negate({last})"));
        }
    }
}

/// Every so many elements of rows of a length that they divide or not.
#[test]
fn elements_in_steps() {
    for stride in [2, 3, 4, 8, 9] {
        for (rows, columns) in [(3, 120), (2, 121), (1, 72), (1, 77)] {
            let part = |first: i64| (columns - first + stride - 1) / stride;
            let count = part(stride - 1);
            let mut body = String::new();
            let mut sum = String::new();
            for first in 0..stride {
                body += &format!(
                    "s{first} = f32[{rows},{}] slice(p), slice={{[0:{rows}],[{first}:{columns}:{stride}]}}
                     c{first} = f32[{rows},{count}] slice(s{first}), slice={{[0:{rows}],[0:{count}]}}\n",
                    part(first)
                );
                sum = match first {
                    0 => "c0".to_owned(),
                    _ => {
                        body +=
                            &format!("d{first} = f32[{rows},{count}] subtract(c{first}, {sum})\n");
                        format!("d{first}")
                    }
                };
            }
            body += &format!("ROOT out = f32[{rows},{count}] negate({sum})");
            holds(&[rows, columns], &body);
        }
    }
}

/// Products of small depth, of which one operand has few columns, in batches and not.
#[test]
fn shallow_products() {
    for depth in [1, 2, 3, 8, 9] {
        holds(
            &[70, depth],
            &format!(
                "r = f32[{}] reshape(p) w = f32[{depth}] slice(r), slice={{[0:{depth}]}}
                 d = f32[70] dot(p, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
                 ROOT e = f32[70] exponential(d)",
                70 * depth
            ),
        );
        for columns in [1, 3, 4, 5] {
            holds(
                &[20, depth, columns],
                &format!(
                    "t = f32[20,{columns},{depth}] transpose(p), dimensions={{0,2,1}}
                     d = f32[20,{columns},{columns}] dot(t, p), lhs_batch_dims={{0}},
                       rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
                     o = f32[20,{columns},{columns}] dot(d, d), lhs_batch_dims={{0}},
                       rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
                     ROOT s = f32[20,{columns},{columns}] add(o, d)"
                ),
            );
        }
    }
}

/// What a loop divides by is the same for all coordinates.
#[test]
fn forces_between_all() {
    let add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }";
    for (count, coordinates) in [(20, 2), (37, 3), (64, 4), (33, 5), (9, 3), (16, 1)] {
        let (n, c) = (count, coordinates);
        for (along, kept) in [(1, "mine"), (0, "theirs")] {
            holds_with(
                add,
                &[n, c],
                &format!(
                    "mine = f32[{n},{n},{c}] broadcast(p), dimensions={{0,2}}
                     theirs = f32[{n},{n},{c}] broadcast(p), dimensions={{1,2}}
                     d = f32[{n},{n},{c}] subtract(theirs, mine)
                     s = f32[{n},{n},{c}] multiply(d, d)
                     zero = f32[] constant(0) one = f32[] constant(1)
                     r = f32[{n},{n}] reduce(s, zero), dimensions={{2}}, to_apply=add
                     o = f32[{n},{n}] broadcast(one), dimensions={{}}
                     q = f32[{n},{n}] add(r, o)
                     e = f32[{n},{n}] rsqrt(q)
                     f = f32[{n},{n},{c}] broadcast(e), dimensions={{0,1}}
                     g = f32[{n},{n},{c}] multiply(d, f)
                     h = f32[{n},{n},{c}] add(g, {kept})
                     w = f32[{n},{c}] reduce(h, zero), dimensions={{{along}}}, to_apply=add
                     ROOT t = f32[{n},{c}] subtract(w, p)"
                ),
            );
        }
    }
}

/// Rows that end within a vector, written over what they are computed from, in an order of
/// their own.
#[test]
fn rows_that_touch() {
    for (rows, columns) in [(5, 12), (16, 3), (33, 20), (100, 31), (6000, 12)] {
        for (outer, inner) in [(1, rows), (3, rows)] {
            holds(
                &[outer, inner, columns],
                &format!(
                    "r = f32[{0}] reshape(p) w = f32[{columns}] slice(r), slice={{[0:{columns}]}}
                     e = f32[{outer},{inner},{columns}] exponential(p)
                     s = f32[{outer},{inner},{columns}] reverse(e), dimensions={{0,1}}
                     b = f32[{outer},{inner},{columns}] broadcast(w), dimensions={{2}}
                     d = f32[{outer},{inner},{columns}] subtract(p, b)
                     t = f32[{outer},{inner},{columns}] multiply(d, s)
                     ROOT q = f32[{outer},{inner},{columns}] subtract(t, b)",
                    outer * inner * columns
                ),
            );
        }
    }
}

/// What is scattered at one index is written out where it is little; functions of it have
/// lanes.
#[test]
fn few_elements_at_each_index() {
    let add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }";
    for width in [1, 2, 3, 4, 8, 9] {
        holds_with(
            add,
            &[50, width],
            &format!(
                "z = f32[] constant(0) t = f32[20,{width}] broadcast(z), dimensions={{}}
                 i = s32[50] iota(), iota_dimension=0 k = s32[] constant(7)
                 ks = s32[50] broadcast(k), dimensions={{}} j = s32[50] multiply(i, i)
                 n = s32[] constant(23) ns = s32[50] broadcast(n), dimensions={{}}
                 m = s32[50] remainder(j, ns) at = s32[50] subtract(m, ks)
                 e = f32[50,{width}] tanh(p) u = f32[50,{width}] add(e, p)
                 ROOT s = f32[20,{width}] scatter(t, at, u), update_window_dims={{1}},
                   inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}},
                   index_vector_dim=1, to_apply=add"
            ),
        );
    }
}

/// A matrix that two sums go through, one along its rows and one along its columns, for three
/// coordinates: what is gathered for one has lanes all the same.
#[test]
fn coordinates_along_rows_and_columns() {
    for n in [15, 16, 17, 33, 50] {
        for coordinates in [2, 3] {
            let [row, all, each] = [
                format!("f32[{n}]"),
                format!("f32[{n},{n}]"),
                format!("f32[{n},{n},{coordinates}]"),
            ];
            holds_with(
                "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }",
                &[n, coordinates],
                &format!(
                    "s = f32[{n},1] slice(p), slice={{[0:{n}],[0:1]}} a = {row} reshape(s)
                     h = f32[] constant(0.25) hs = {all} broadcast(h), dimensions={{}}
                     zero = f32[] constant(0)
                     ab = {all} broadcast(a), dimensions={{0}}
                     ac = {all} broadcast(a), dimensions={{1}} ad = {all} multiply(ac, hs)
                     d0 = {all} subtract(ab, ad) w = {all} logistic(d0)
                     pi = {each} broadcast(p), dimensions={{0,2}}
                     pj = {each} broadcast(p), dimensions={{1,2}}
                     d = {each} subtract(pi, pj) wb = {each} broadcast(w), dimensions={{0,1}}
                     f = {each} multiply(wb, d)
                     r1 = f32[{n},{coordinates}] reduce(f, zero), dimensions={{0}}, to_apply=add
                     r2 = f32[{n},{coordinates}] reduce(f, zero), dimensions={{1}}, to_apply=add
                     ROOT r = f32[{n},{coordinates}] subtract(r2, r1)"
                ),
            );
        }
    }
}
