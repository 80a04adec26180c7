//! Arrays that are repeated, arrays whose elements are repeated, Kronecker products, and arrays that are
//! stacked along their last dimension: indices with quotients and remainders, and short dimensions.

use tegula_tests::judge::assert_text_agrees;

const TYPES: [&str; 10] = [
    "f32", "f64", "s32", "s64", "u8", "s16", "bf16", "f16", "c64", "pred",
];

/// The operation of two operands that every type of [`TYPES`] has.
fn combine(ty: &str) -> &'static str {
    if ty == "pred" { "or" } else { "add" }
}

#[test]
fn repeated_rows_and_elements_agree() {
    for ty in TYPES {
        for [rows, columns, times] in [[3, 64, 3], [2, 100, 2], [5, 24, 4], [1, 7, 9], [2, 300, 3]]
        {
            let (tall, wide) = (2 * rows, times * columns);
            let op = combine(ty);
            let text = format!(
                "HloModule repeated
ENTRY main {{
  x = {ty}[{rows},{columns}] parameter(0)
  y = {ty}[{tall},{wide}] parameter(1)
  a = {ty}[2,{rows},{times},{columns}] broadcast(x), dimensions={{1,3}}
  array = {ty}[{tall},{wide}] reshape(a)
  b = {ty}[{rows},{columns},{times}] broadcast(x), dimensions={{0,1}}
  elements = {ty}[{rows},{wide}] reshape(b)
  both = {ty}[{tall},{wide}] {op}(array, y)
  ROOT r = ({ty}[{tall},{wide}], {ty}[{tall},{wide}], {ty}[{rows},{wide}]) tuple(array, both, elements)
}}
"
            );
            assert_text_agrees(&text);
        }
    }
}

#[test]
fn kronecker_products_agree() {
    for ty in TYPES {
        for [m, n, p, q] in [[3, 5, 4, 16], [2, 2, 3, 40], [4, 70, 2, 3], [1, 6, 5, 7]] {
            let (tall, wide) = (m * p, n * q);
            let op = if ty == "pred" { "and" } else { "multiply" };
            let text = format!(
                "HloModule kronecker
ENTRY main {{
  x = {ty}[{m},{n}] parameter(0)
  y = {ty}[{p},{q}] parameter(1)
  a = {ty}[{m},{p},{n},{q}] broadcast(x), dimensions={{0,2}}
  b = {ty}[{m},{p},{n},{q}] broadcast(y), dimensions={{1,3}}
  c = {ty}[{m},{p},{n},{q}] {op}(a, b)
  ROOT r = {ty}[{tall},{wide}] reshape(c)
}}
"
            );
            assert_text_agrees(&text);
        }
    }
}

/// Rows of one length that become rows of another, from the first elements on.
#[test]
fn rows_of_another_length_agree() {
    for ty in TYPES {
        for ([rows, columns], [tall, wide]) in
            [([6, 64], [5, 70]), ([3, 33], [9, 11]), ([2, 500], [10, 60])]
        {
            let (all, some) = (rows * columns, tall * wide);
            let text = format!(
                "HloModule resized
ENTRY main {{
  x = {ty}[{rows},{columns}] parameter(0)
  flat = {ty}[{all}] reshape(x)
  two = {ty}[2,{all}] broadcast(flat), dimensions={{1}}
  twice = {ty}[{}] reshape(two)
  cut = {ty}[{some}] slice(twice), slice={{[0:{some}]}}
  ROOT r = {ty}[{tall},{wide}] reshape(cut)
}}
",
                2 * all
            );
            assert_text_agrees(&text);
        }
    }
}

#[test]
fn stacked_arrays_agree() {
    for ty in TYPES {
        for (rows, columns, count) in [(3, 64, 2), (2, 100, 4), (1, 37, 2), (5, 16, 3), (2, 40, 8)]
        {
            let op = combine(ty);
            let mut text = format!(
                "HloModule stacked
ENTRY main {{
  x = {ty}[{rows},{columns}] parameter(0)
  y = {ty}[{rows},{columns}] parameter(1)
  v0 = {ty}[{rows},{columns}] {op}(x, y)
"
            );
            for i in 1..count {
                let before = i - 1;
                text += &format!("  v{i} = {ty}[{rows},{columns}] {op}(v{before}, y)\n");
            }
            let parts: Vec<String> = (0..count).map(|i| format!("p{i}")).collect();
            for i in 0..count {
                text += &format!("  p{i} = {ty}[{rows},{columns},1] reshape(v{i})\n");
            }
            text += &format!(
                "  ROOT r = {ty}[{rows},{columns},{count}] concatenate({}), dimensions={{2}}\n}}\n",
                parts.join(", ")
            );
            assert_text_agrees(&text);
        }
    }
}

/// The place of the largest element alone, and what is selected by it: the element itself is no result.
#[test]
fn places_of_largest_elements_agree() {
    for ty in ["f32", "s32", "u8", "bf16", "pred"] {
        for (rows, columns) in [(3, 64), (100, 3), (1, 17), (40, 2)] {
            let text = format!(
                "HloModule places
larger {{
  a = {ty}[] parameter(0)
  i = s32[] parameter(1)
  b = {ty}[] parameter(2)
  j = s32[] parameter(3)
  above = pred[] compare(a, b), direction=GT
  nan = pred[] compare(a, a), direction=NE
  first = pred[] or(above, nan)
  equal = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(equal, before)
  here = pred[] or(first, tie)
  value = {ty}[] select(first, a, b)
  place = s32[] select(here, i, j)
  ROOT t = ({ty}[], s32[]) tuple(value, place)
}}
ENTRY main {{
  x = {ty}[{rows},{columns}] parameter(0)
  i = s32[{rows},{columns}] iota(), iota_dimension=1
  zero = {ty}[] constant(0)
  none = s32[] constant(0)
  r = ({ty}[{rows}], s32[{rows}]) reduce(x, i, zero, none), dimensions={{1}}, to_apply=larger
  place = s32[{rows}] get-tuple-element(r), index=1
  ROOT q = s32[{rows}] add(place, place)
}}
"
            );
            assert_text_agrees(&text);
        }
    }
}
