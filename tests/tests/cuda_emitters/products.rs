//! Products and convolutions whose sums are split over blocks, and what is near: sums that
//! are not worth it, and functions that differ in their number of blocks only.

use super::cases::Case;

pub(crate) const PRODUCTS: &[Case] = &[
    Case {
        name: "few positions, many channels",
        text: "ENTRY main { a = f32[1,7,7,128] parameter(0) b = f32[3,3,128,64] parameter(1)
            ROOT c = f32[1,7,7,64] convolution(a, b), window={size=3x3 pad=1_1x1_1},
              dim_labels=b01f_01io->b01f }",
        reasons: &[
            "tiles of 32 x 32 in shared memory, 16 deep; 18 slices of the sum, 64 positions each",
            "adds the 18 slices",
        ],
    },
    Case {
        name: "few positions, channels that fill no tile",
        text: "ENTRY main { a = f32[2,5,3,37] parameter(0) b = f32[21,37,3,3] parameter(1)
            ROOT c = f32[2,21,5,3] convolution(a, b), window={size=3x3 pad=1_1x1_1},
              dim_labels=b01f_oi01->bf01 }",
        reasons: &["5 slices of the sum, 80 positions each"],
    },
    Case {
        name: "few positions, a window of one",
        text: "ENTRY main { a = f32[1,14,14,256] parameter(0) b = f32[1,1,256,96] parameter(1)
            ROOT c = f32[1,14,14,96] convolution(a, b), window={size=1x1},
              dim_labels=b01f_01io->b01f }",
        reasons: &["4 slices of the sum, 64 positions each"],
    },
    Case {
        name: "many positions",
        text: "ENTRY main { a = f32[1,92,92,2] parameter(0) b = f32[3,3,2,33] parameter(1)
            ROOT c = f32[1,92,92,33] convolution(a, b), window={size=3x3 pad=1_1x1_1},
              dim_labels=b01f_01io->b01f }",
        reasons: &["tiles of 64 x 64 in shared memory, 16 deep"],
    },
    Case {
        name: "many positions of halves",
        text: "ENTRY main { a = bf16[1,92,92,2] parameter(0) b = bf16[3,3,2,33] parameter(1)
            ROOT c = bf16[1,92,92,33] convolution(a, b), window={size=3x3 pad=1_1x1_1},
              dim_labels=b01f_01io->b01f }",
        reasons: &["tiles of 64 x 64 on tensor cores"],
    },
    Case {
        name: "a sum not worth a second function",
        text: "ENTRY main { a = f32[1,8,8,16] parameter(0) b = f32[3,3,16,32] parameter(1)
            ROOT c = f32[1,8,8,32] convolution(a, b), window={size=3x3 pad=1_1x1_1},
              dim_labels=b01f_01io->b01f }",
        reasons: &["tiles of 32 x 32 in shared memory, 16 deep"],
    },
    Case {
        name: "the gradient of a small convolution's kernel",
        text: "ENTRY main { a = f32[4,13,12,1] parameter(0) b = f32[4,13,12,6] parameter(1)
            ROOT c = f32[5,5,1,6] convolution(a, b), window={size=13x12 pad=2_2x2_2},
              dim_labels=f01b_i01o->01bf }",
        reasons: &["tiles of 32 x 16 in shared memory, 16 deep; 8 slices"],
    },
    Case {
        name: "the gradient of a kernel",
        text: "ENTRY main { a = f32[4,14,14,6] parameter(0) b = f32[4,10,10,16] parameter(1)
            ROOT c = f32[5,5,6,16] convolution(a, b), window={size=10x10},
              dim_labels=f01b_i01o->01bf }",
        reasons: &["tiles of 32 x 16 in shared memory, 16 deep; 5 slices"],
    },
    Case {
        name: "the gradient of a strided convolution's kernel",
        text: "ENTRY main { a = f32[5,17,17,5] parameter(0) b = f32[5,9,9,24] parameter(1)
            ROOT c = f32[3,3,5,24] convolution(a, b),
              window={size=9x9 pad=1_1x1_1 rhs_dilate=2x2}, dim_labels=f01b_i01o->01bf }",
        reasons: &["slices of the sum"],
    },
    Case {
        name: "the gradient of a convolution by channel",
        text: "ENTRY main { a = f32[3,12,12,8] parameter(0) b = f32[3,12,12,8] parameter(1)
            ROOT c = f32[3,3,1,8] convolution(a, b), window={size=12x12 pad=1_1x1_1},
              dim_labels=f01b_i01o->01bf, batch_group_count=8 }",
        reasons: &["tiles of 16 x 16 in shared memory, 16 deep; 6 slices"],
    },
    Case {
        name: "strides, groups and a long sum",
        text: "ENTRY main { a = f32[2,9,8,80] parameter(0) b = f32[3,2,40,24] parameter(1)
            ROOT c = f32[2,5,8,24] convolution(a, b),
              window={size=3x2 stride=2x1 pad=1_1x1_0}, dim_labels=b01f_01io->b01f,
              feature_group_count=2 }",
        reasons: &["slices of the sum"],
    },
    Case {
        name: "a dilated, reversed window and a long sum",
        text: "ENTRY main { a = f32[1,6,5,48] parameter(0) b = f32[3,3,40,48] parameter(1)
            ROOT c = f32[1,11,11,40] convolution(a, b),
              window={size=3x3 pad=1_1x1_3 lhs_dilate=2x2 rhs_reversal=1x1},
              dim_labels=b01f_01oi->b01f }",
        reasons: &["slices of the sum"],
    },
    Case {
        name: "integers of 32 bits",
        text: "ENTRY main { a = s32[1,6,6,64] parameter(0) b = s32[3,3,64,20] parameter(1)
            ROOT c = s32[1,6,6,20] convolution(a, b), window={size=3x3 pad=1_1x1_1},
              dim_labels=b01f_01io->b01f }",
        reasons: &["slices of the sum"],
    },
    Case {
        name: "bytes, whose sums wrap",
        text: "ENTRY main { a = s8[1,6,6,64] parameter(0) b = s8[3,3,64,20] parameter(1)
            ROOT c = s8[1,6,6,20] convolution(a, b), window={size=3x3 pad=1_1x1_1},
              dim_labels=b01f_01io->b01f }",
        reasons: &["slices of the sum"],
    },
    Case {
        name: "doubles",
        text: "ENTRY main { a = f64[1,6,6,64] parameter(0) b = f64[3,3,64,20] parameter(1)
            ROOT c = f64[1,6,6,20] convolution(a, b), window={size=3x3 pad=1_1x1_1},
              dim_labels=b01f_01io->b01f }",
        reasons: &["slices of the sum"],
    },
    Case {
        name: "halves, few positions, many channels",
        text: "ENTRY main { a = bf16[1,7,7,128] parameter(0) b = bf16[3,3,128,64] parameter(1)
            ROOT c = bf16[1,7,7,64] convolution(a, b), window={size=3x3 pad=1_1x1_1},
              dim_labels=b01f_01io->b01f }",
        reasons: &["tiles of 32 x 64 on tensor cores, 32 deep, the next copied ahead; 9 slices"],
    },
    Case {
        name: "halves, features outside, a sum that fills no tile",
        text: "ENTRY main { a = f16[2,45,7,5] parameter(0) b = f16[24,45,3,3] parameter(1)
            ROOT c = f32[2,24,7,5] convolution(a, b), window={size=3x3 pad=1_1x1_1},
              dim_labels=bf01_oi01->bf01 }",
        reasons: &["on tensor cores, 32 deep, the next copied ahead; 3 slices"],
    },
    Case {
        name: "the gradient of a kernel of halves",
        text: "ENTRY main { a = bf16[8,9,9,24] parameter(0) b = bf16[8,9,9,40] parameter(1)
            ROOT c = bf16[3,3,24,40] convolution(a, b), window={size=9x9 pad=1_1x1_1},
              dim_labels=f01b_i01o->01bf }",
        reasons: &["on tensor cores", "slices of the sum"],
    },
    Case {
        name: "the gradient of a strided convolution of halves by its input",
        text: "ENTRY main { a = bf16[1,5,4,64] parameter(0) b = bf16[3,3,48,64] parameter(1)
            ROOT c = bf16[1,9,8,48] convolution(a, b),
              window={size=3x3 pad=1_1x1_2 lhs_dilate=2x2 rhs_reversal=1x1},
              dim_labels=b01f_01oi->b01f }",
        reasons: &["on tensor cores", "slices of the sum"],
    },
    Case {
        name: "halves in groups, a long sum",
        text: "ENTRY main { a = bf16[1,6,6,128] parameter(0) b = bf16[3,3,64,64] parameter(1)
            ROOT c = bf16[1,6,6,64] convolution(a, b), window={size=3x3 pad=1_1x1_1},
              dim_labels=b01f_01io->b01f, feature_group_count=2 }",
        reasons: &["on tensor cores", "slices of the sum"],
    },
    Case {
        name: "a dot with a long sum",
        text: "ENTRY main { a = f32[3,20,700] parameter(0) b = f32[3,700,11] parameter(1)
            ROOT c = f32[3,20,11] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
              lhs_contracting_dims={2}, rhs_contracting_dims={1} }",
        reasons: &["slices of the sum"],
    },
    Case {
        name: "a dot of halves with a long sum",
        text: "ENTRY main { a = bf16[33,1000] parameter(0) b = bf16[18,1000] parameter(1)
            ROOT c = bf16[33,18] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1} }",
        reasons: &["on tensor cores", "slices of the sum"],
    },
    Case {
        name: "a long sum that is added to a loop's state",
        text: "ENTRY main { x = f32[20,11] parameter(0) w = f32[9,20,300] parameter(1)
            v = f32[4,300,11] parameter(2) i = s32[] constant(0)
            s = (s32[], f32[20,11], f32[9,20,300], f32[4,300,11]) tuple(i, x, w, v)
            l = (s32[], f32[20,11], f32[9,20,300], f32[4,300,11]) while(s), condition=three,
              body=adds
            ROOT r = f32[20,11] get-tuple-element(l), index=1 }",
        reasons: &["slices of the sum"],
    },
    Case {
        name: "a long sum of halves that is added to a loop's state",
        text: "ENTRY main { x = f32[20,18] parameter(0) w = bf16[9,20,600] parameter(1)
            v = bf16[4,600,18] parameter(2) i = s32[] constant(0)
            s = (s32[], f32[20,18], bf16[9,20,600], bf16[4,600,18]) tuple(i, x, w, v)
            l = (s32[], f32[20,18], bf16[9,20,600], bf16[4,600,18]) while(s),
              condition=three_h, body=adds_h
            ROOT r = f32[20,18] get-tuple-element(l), index=1 }",
        reasons: &["on tensor cores", "slices of the sum"],
    },
    Case {
        name: "halves that are added to a loop's state",
        text: "ENTRY main { x = f32[32,64] parameter(0) w = bf16[9,32,16] parameter(1)
            v = bf16[4,16,64] parameter(2) i = s32[] constant(0)
            s = (s32[], f32[32,64], bf16[9,32,16], bf16[4,16,64]) tuple(i, x, w, v)
            l = (s32[], f32[32,64], bf16[9,32,16], bf16[4,16,64]) while(s),
              condition=three_t, body=adds_t
            ROOT r = f32[32,64] get-tuple-element(l), index=1 }",
        reasons: &["on tensor cores"],
    },
    Case {
        name: "two dots that differ in their batches",
        text: "ENTRY main { a = f32[2,9,8] parameter(0) b = f32[2,8,9] parameter(1)
            c = f32[5,9,8] parameter(2) d = f32[5,8,9] parameter(3)
            x = f32[2,9,9] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
              lhs_contracting_dims={2}, rhs_contracting_dims={1}
            y = f32[5,9,9] dot(c, d), lhs_batch_dims={0}, rhs_batch_dims={0},
              lhs_contracting_dims={2}, rhs_contracting_dims={1}
            ROOT t = (f32[2,9,9], f32[5,9,9]) tuple(x, y) }",
        reasons: &["tiles of 16 x 16 in shared memory"],
    },
];

/// Loops that add a dot to their state: of `f32`, and of halves with a long and a short sum.
pub(crate) fn computations() -> String {
    let shapes = [
        ("", "f32", "20,300", "300,11"),
        ("_h", "bf16", "20,600", "600,18"),
        ("_t", "bf16", "32,16", "16,64"),
    ];
    let loops = shapes.map(|(name, ty, left, right)| {
        let (rows, columns) = (
            left.split(',').next().unwrap_or_default(),
            right.split(',').next_back().unwrap_or_default(),
        );
        let out = format!("f32[{rows},{columns}]");
        let state = format!("(s32[], {out}, {ty}[9,{left}], {ty}[4,{right}])");
        format!(
            "three{name} {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3) ROOT p = pred[] compare(i, n), direction=LT }}
adds{name} {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0
  x = {out} get-tuple-element(s), index=1 w = {ty}[9,{left}] get-tuple-element(s), index=2
  v = {ty}[4,{right}] get-tuple-element(s), index=3 z = s32[] constant(0) k = s32[] multiply(i, i)
  ws = {ty}[1,{left}] dynamic-slice(w, k, z, z), dynamic_slice_sizes={{1,{left}}}
  wr = {ty}[{left}] reshape(ws)
  vs = {ty}[1,{right}] dynamic-slice(v, i, z, z), dynamic_slice_sizes={{1,{right}}}
  vr = {ty}[{right}] reshape(vs)
  d = {out} dot(wr, vr), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  y = {out} add(x, d) one = s32[] constant(1) j = s32[] add(i, one)
  ROOT t = {state} tuple(j, y, w, v) }}
"
        )
    });
    loops.concat()
}

/// Convolutions in slices: their channels, features, and types of factors and result.
pub(crate) const PADDED: &[(usize, usize, [&str; 2])] = &[
    (40, 24, ["f32", "f32"]),
    (70, 6, ["f64", "f64"]),
    (40, 24, ["bf16", "bf16"]),
    (44, 40, ["f16", "f32"]),
];

/// A convolution whose kernel has infinities of both signs in opposite corners, in different
/// slices of the sum: of the result's elements, those within see both, those at two borders
/// one of them, where the other meets the padding, and two none.
pub(crate) fn padded(channels: usize, features: usize, [ty, out]: [&str; 2]) -> String {
    let kernel = format!("{ty}[3,3,{channels},{features}]");
    let one = format!("{ty}[1,1,1,{features}]");
    let input = format!("{ty}[1,6,5,{channels}]");
    let last = channels - 1;
    format!(
        "HloModule padded
ENTRY main {{ x = {input} parameter(0) w = {kernel} parameter(1)
  unit = {ty}[] constant(1) ub = {input} broadcast(unit), dimensions={{}}
  xx = {input} multiply(x, x) a = {input} add(xx, ub)
  zero = {ty}[] constant(0) inf = {ty}[] constant(inf) neg = {ty}[] constant(-inf)
  ib = {one} broadcast(inf), dimensions={{}} nb = {one} broadcast(neg), dimensions={{}}
  high = {kernel} pad(ib, zero), padding=0_2x0_2x0_{last}x0_0
  low = {kernel} pad(nb, zero), padding=2_0x2_0x{last}_0x0_0
  wh = {kernel} add(w, high) b = {kernel} add(wh, low)
  ROOT c = {out}[1,6,5,{features}] convolution(a, b), window={{size=3x3 pad=1_1x1_1}},
    dim_labels=b01f_01io->b01f }}"
    )
}
