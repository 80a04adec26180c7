//! Rows of lanes whose places are loaded: scatters and gathers of rows; small tables, and arrays
//! that lanes would go through in steps.

use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};
use tegula_tests::judge::assert_agrees;
use tegula_tests::random::Regime;
use tegula_tests::read;

/// Small whole numbers: sums and products of them are exact.
fn numbers(ty: ElementType, dims: &[i64], salt: i64) -> Literal {
    let shape = ArrayShape::new(ty, dims);
    let count: i64 = dims.iter().product();
    let number = |i: i64| Scalar::Int((i * 7 + salt) % 5 - 2).convert(ty);
    Literal::from_scalars(&shape, (0..count).map(number)).expect("small")
}

/// Places from two below an array's beginning to two behind its end.
fn places(count: i64, size: i64) -> Literal {
    let shape = ArrayShape::new(ElementType::S32, &[count]);
    let place = |i: i64| Scalar::Int((i * i + 3 * i) % (size + 4) - 2).convert(ElementType::S32);
    Literal::from_scalars(&shape, (0..count).map(place)).expect("small")
}

/// A program means on the CPU what the evaluator says, to the bit.
fn holds(text: &str, inputs: &[Literal]) {
    let module = read(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_agrees(&module, inputs, Regime::Dyadic);
}

#[test]
fn scatters_of_rows() {
    let operations = ["add", "minimum", "maximum", "multiply", "set"];
    let types = [
        ("f32", ElementType::F32),
        ("bf16", ElementType::BF16),
        ("s32", ElementType::S32),
        ("u8", ElementType::U8),
        ("f64", ElementType::F64),
    ];
    for (i, columns) in [9, 12, 16, 20, 24, 33, 100].into_iter().enumerate() {
        for (name, ty) in types {
            let operation = operations[i % operations.len()];
            let root = match operation {
                "set" => format!("a = {name}[] parameter(0) ROOT b = {name}[] parameter(1)"),
                _ => format!(
                    "a = {name}[] parameter(0) b = {name}[] parameter(1)
                     ROOT r = {name}[] {operation}(a, b)"
                ),
            };
            let text = format!(
                "HloModule rows
                 c {{ {root} }}
                 ENTRY main {{
                   d = {name}[7,{columns}] parameter(0)
                   i = s32[40] parameter(1)
                   x = {name}[40,{columns}] parameter(2)
                   j = s32[40,1] reshape(i)
                   ROOT s = {name}[7,{columns}] scatter(d, j, x), update_window_dims={{1}},
                     inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}},
                     index_vector_dim=1, to_apply=c
                 }}"
            );
            let dims = [7, columns];
            let x = numbers(ty, &[40, columns], 1);
            holds(&text, &[numbers(ty, &dims, 0), places(40, 7), x]);
        }
    }
}

/// Indices of 64 bits without a sign that are none as numbers with one: beyond the end.
#[test]
fn indices_beyond_what_is_signed() {
    let shape = ArrayShape::new(ElementType::U64, &[6]);
    let indices = [0, 3, 1 << 63, u64::MAX, u64::MAX / 2, 2];
    let indices = Literal::from_scalars(&shape, indices.map(Scalar::Uint)).expect("small");
    let text = "HloModule unsigned
        ENTRY main {
          d = f32[5,20] parameter(0) i = u64[6] parameter(1)
          rows = f32[6,20] gather(d, i), offset_dims={1}, collapsed_slice_dims={0},
            start_index_map={0}, index_vector_dim=1, slice_sizes={1,20}
          one = u64[1] slice(i), slice={[3:4]} at = u64[] reshape(one) zero = u64[] constant(0)
          slice = f32[2,20] dynamic-slice(d, at, zero), dynamic_slice_sizes={2,20}
          ROOT r = (f32[6,20], f32[2,20]) tuple(rows, slice)
        }";
    holds(text, &[numbers(ElementType::F32, &[5, 20], 0), indices]);
}

/// By two indices, windows in two dimensions, and rows with a weight each.
#[test]
fn scatters_of_rows_with_more() {
    let add = "c { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }";
    let f32s = |dims: &[i64]| numbers(ElementType::F32, dims, 2);
    let two = format!(
        "HloModule two {add}
         ENTRY main {{
           d = f32[4,5,20] parameter(0)
           p = s32[60] parameter(1)
           x = f32[30,20] parameter(2)
           i = s32[30,2] reshape(p)
           ROOT s = f32[4,5,20] scatter(d, i, x), update_window_dims={{1}},
             inserted_window_dims={{0,1}}, scatter_dims_to_operand_dims={{0,1}},
             index_vector_dim=1, to_apply=c
         }}"
    );
    holds(&two, &[f32s(&[4, 5, 20]), places(60, 4), f32s(&[30, 20])]);
    let windows = format!(
        "HloModule windows {add}
         ENTRY main {{
           d = f32[9,40] parameter(0)
           p = s32[40] parameter(1)
           x = f32[20,3,17] parameter(2)
           i = s32[20,2] reshape(p)
           ROOT s = f32[9,40] scatter(d, i, x), update_window_dims={{1,2}},
             inserted_window_dims={{}}, scatter_dims_to_operand_dims={{0,1}},
             index_vector_dim=1, to_apply=c
         }}"
    );
    holds(
        &windows,
        &[f32s(&[9, 40]), places(40, 7), f32s(&[20, 3, 17])],
    );
    let weights = format!(
        "HloModule weights {add}
         ENTRY main {{
           d = f32[6,21] parameter(0)
           p = s32[25] parameter(1)
           x = f32[25,21] parameter(2)
           w = f32[25] parameter(3)
           k = pred[25] parameter(4)
           v = f32[25,21] broadcast(w), dimensions={{0}}
           y = f32[25,21] multiply(x, v)
           l = pred[25,21] broadcast(k), dimensions={{0}}
           z = f32[25,21] select(l, y, x)
           i = s32[25,1] reshape(p)
           ROOT s = f32[6,21] scatter(d, i, z), update_window_dims={{1}},
             inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}},
             index_vector_dim=1, to_apply=c
         }}"
    );
    let kept = ArrayShape::new(ElementType::Pred, &[25]);
    let kept = Literal::from_scalars(&kept, (0..25).map(|i| Scalar::Bool(i % 3 > 0)));
    let inputs = [
        f32s(&[6, 21]),
        places(25, 6),
        f32s(&[25, 21]),
        f32s(&[25]),
        kept.expect("small"),
    ];
    holds(&weights, &inputs);
}

#[test]
fn gathers_of_rows() {
    for columns in [9, 16, 20, 33, 64] {
        let text = format!(
            "HloModule rows
             ENTRY main {{
               d = f32[11,{columns}] parameter(0)
               i = s32[50] parameter(1)
               j = s32[50,1] reshape(i)
               g = f32[50,{columns}] gather(d, j), offset_dims={{1}}, collapsed_slice_dims={{0}},
                 start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{columns}}}
               two = f32[] constant(2)
               t = f32[50,{columns}] broadcast(two), dimensions={{}}
               ROOT r = f32[50,{columns}] multiply(g, t)
             }}"
        );
        let d = numbers(ElementType::F32, &[11, columns], 4);
        holds(&text, &[d, places(50, 11)]);
    }
}

/// Of one to more elements than a register holds, some of them by two indices.
#[test]
fn gathers_from_small_tables() {
    for (name, ty) in [("f32", ElementType::F32), ("u32", ElementType::U32)] {
        for size in [1, 2, 5, 11, 15, 16, 17] {
            let text = format!(
                "HloModule table
                 ENTRY main {{
                   t = {name}[{size}] parameter(0)
                   i = s32[77] parameter(1)
                   one = s32[] constant(1)
                   o = s32[77] broadcast(one), dimensions={{}}
                   k = s32[77] subtract(i, o)
                   a = {name}[77] gather(t, i), offset_dims={{}}, collapsed_slice_dims={{0}},
                     start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}
                   b = {name}[77] gather(t, k), offset_dims={{}}, collapsed_slice_dims={{0}},
                     start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}
                   ROOT r = {name}[77] subtract(a, b)
                 }}"
            );
            holds(&text, &[numbers(ty, &[size], 0), places(77, size)]);
        }
    }
}

/// Along each dimension, in each place, some indices outside.
#[test]
fn gathers_at_constant_indices() {
    let list = [
        "{1}, {2}, {0}",
        "{2}, {9}, {-4}",
        "{0}, {1}, {2}",
        "{1}, {1}, {1}",
    ];
    for indices in list {
        for (along, dims) in [(0, [3, 20, 2]), (1, [20, 3, 3]), (2, [2, 20, 3])] {
            for place in 0..3 {
                let offset: Vec<usize> = (0..3).filter(|&d| d != place).collect();
                let mut result: Vec<i64> =
                    (0..3).filter(|&d| d != along).map(|d| dims[d]).collect();
                result.insert(place, 3);
                let mut sizes = dims;
                sizes[along] = 1;
                let text = format!(
                    "HloModule constant
                     ENTRY main {{
                       x = f32{dims:?} parameter(0)
                       i = s32[3,1] constant({{ {indices} }})
                       g = f32{result:?} gather(x, i), offset_dims={{{},{}}},
                         collapsed_slice_dims={{{along}}}, start_index_map={{{along}}},
                         index_vector_dim=1, slice_sizes={{{},{},{}}}
                       ROOT r = f32{result:?} add(g, g)
                     }}",
                    offset[0], offset[1], sizes[0], sizes[1], sizes[2]
                );
                holds(
                    &text.replace("], [", "]["),
                    &[numbers(ElementType::F32, &dims, 1)],
                );
            }
        }
    }
}

/// Squares of differences between many points and a few, summed over coordinates and again.
#[test]
fn distances_to_a_few_points() {
    for (few, size) in [(20, 6), (7, 5), (33, 3)] {
        let text = format!(
            "HloModule distances
             add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
             most {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }}
             ENTRY main {{
               x = f32[70,{size}] parameter(0)
               m = f32[{few},{size}] parameter(1)
               a = f32[70,{few},{size}] broadcast(x), dimensions={{0,2}}
               b = f32[70,{few},{size}] broadcast(m), dimensions={{1,2}}
               d = f32[70,{few},{size}] subtract(a, b)
               q = f32[70,{few},{size}] multiply(d, d)
               zero = f32[] constant(0)
               s = f32[70,{few}] reduce(q, zero), dimensions={{2}}, to_apply=add
               least = f32[] constant(-inf)
               t = f32[70] reduce(s, least), dimensions={{1}}, to_apply=most
               u = f32[70,{few}] broadcast(t), dimensions={{0}}
               v = f32[70,{few}] subtract(u, s)
               ROOT w = f32[70] reduce(v, zero), dimensions={{1}}, to_apply=add
             }}"
        );
        let x = numbers(ElementType::F32, &[70, size], 1);
        holds(&text, &[x, numbers(ElementType::F32, &[few, size], 3)]);
    }
}

/// Sums of rows whose places a loop loads: all lanes of a turn read beside one another.
#[test]
fn sums_of_rows_at_loaded_places() {
    let types = [
        ("f32", ElementType::F32),
        ("bf16", ElementType::BF16),
        ("s32", ElementType::S32),
        ("u8", ElementType::U8),
        ("f64", ElementType::F64),
        ("c64", ElementType::C64),
    ];
    for (i, columns) in [5, 9, 16, 20, 33, 100].into_iter().enumerate() {
        for (name, ty) in types {
            let (rows, of_bag) = (7, 9 + 2 * i as i64);
            let text = format!(
                "HloModule bags
add {{ a = {name}[] parameter(0) b = {name}[] parameter(1) ROOT r = {name}[] add(a, b) }}
ENTRY main {{
  table = {name}[{rows},{columns}] parameter(0) places = s32[{count}] parameter(1)
  p = s32[6,{of_bag},1] reshape(places)
  g = {name}[6,{of_bag},{columns}] gather(table, p), offset_dims={{2}}, \
     collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=2, \
     slice_sizes={{1,{columns}}}
  zero = {name}[] constant({zero})
  ROOT r = {name}[6,{columns}] reduce(g, zero), dimensions={{1}}, to_apply=add
}}
",
                count = 6 * of_bag,
                zero = if ty == ElementType::C64 { "(0,0)" } else { "0" },
            );
            let inputs = [numbers(ty, &[rows, columns], 3), places(6 * of_bag, rows)];
            holds(&text, &inputs);
        }
    }
}
