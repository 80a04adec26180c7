//! Arrays that lanes go through in a few runs of neighbours, or across them: pixels put side by side and taken
//! apart, and images whose features move before their positions.

use tegula_tests::judge::assert_text_agrees;

/// Blocks of `height` by `width` pixels of `channels` side by side, and the other way round.
fn blocks(ty: &str, [rows, columns]: [usize; 2], [height, width, channels]: [usize; 3]) -> String {
    let (tall, wide) = (rows * height, columns * width);
    let deep = height * width * channels;
    format!(
        "HloModule blocks
ENTRY main {{
  x = {ty}[{tall},{wide},{channels}] parameter(0)
  y = {ty}[{rows},{columns},{deep}] parameter(1)
  a = {ty}[{rows},{height},{columns},{width},{channels}] reshape(x)
  b = {ty}[{rows},{columns},{height},{width},{channels}] transpose(a), dimensions={{0,2,1,3,4}}
  c = {ty}[{rows},{columns},{deep}] reshape(b)
  c2 = {ty}[{rows},{columns},{deep}] add(c, y)
  d = {ty}[{rows},{columns},{height},{width},{channels}] reshape(y)
  e = {ty}[{rows},{height},{columns},{width},{channels}] transpose(d), dimensions={{0,2,1,3,4}}
  f = {ty}[{tall},{wide},{channels}] reshape(e)
  ROOT r = ({ty}[{rows},{columns},{deep}], {ty}[{tall},{wide},{channels}]) tuple(c2, f)
}}
"
    )
}

#[test]
fn blocks_of_pixels_agree() {
    for ty in ["f32", "f64", "s32", "s64", "u8", "bf16", "c64", "pred"] {
        for rows in [[1, 1], [3, 5], [12, 12]] {
            for block in [
                [2, 2, 3],
                [4, 2, 4],
                [3, 1, 5],
                [2, 2, 1],
                [4, 8, 2],
                [5, 2, 3],
            ] {
                let text = blocks(ty, rows, block);
                let text = match ty {
                    "pred" => text.replace("add(c, y)", "or(c, y)"),
                    _ => text,
                };
                assert_text_agrees(&text);
            }
        }
    }
}

/// Positions are one run of lanes, of several blocks and a rest, for each feature.
#[test]
fn images_whose_features_move_agree() {
    for ty in ["f32", "f64", "s16", "u8"] {
        for [batch, rows, columns, features] in [[1, 12, 12, 6], [2, 9, 7, 5], [3, 1, 70, 4]] {
            let text = format!(
                "HloModule features
ENTRY main {{
  x = {ty}[{batch},{rows},{columns},{features}] parameter(0)
  first = {ty}[{batch},{features},{rows},{columns}] transpose(x), dimensions={{0,3,1,2}}
  ROOT sum = {ty}[{batch},{features},{rows},{columns}] add(first, first)
}}
"
            );
            assert_text_agrees(&text);
        }
    }
}
