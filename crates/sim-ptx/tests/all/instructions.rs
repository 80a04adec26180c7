//! Single instructions on all lanes, compared with values that the PTX manual states or that are
//! computed differently.

use tegula_sim_ptx::{Launch, Memory, Module, Options, launch};

/// Runs `body` with `%a`, `%b`, `%c` loaded from three columns of words; returns `%d`.
fn words(body: &str, rows: &[[u32; 3]]) -> Vec<u32> {
    run(
        body,
        &rows.iter().map(|r| r.map(u64::from)).collect::<Vec<_>>(),
        4,
    )
    .into_iter()
    .map(|v| v as u32)
    .collect()
}

/// The same for 64-bit registers.
fn doubles(body: &str, rows: &[[u64; 3]]) -> Vec<u64> {
    run(body, rows, 8)
}

fn run(body: &str, rows: &[[u64; 3]], width: usize) -> Vec<u64> {
    let bits = 8 * width;
    let text = format!(
        ".version 9.0 .target sm_90 .address_size 64
         .visible .entry f(.param .u64 in, .param .u64 out) {{
           .reg .b64 %rd<6>; .reg .b{bits} %a, %b, %c, %d; .reg .pred %p, %q; .reg .b16 %h<9>;
           .reg .b32 %r<9>; .reg .b64 %x<9>;
           ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
           mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, {};
           add.s64 %rd4, %rd1, %rd3; mul.wide.u32 %rd3, %r1, {width}; add.s64 %rd5, %rd2, %rd3;
           ld.global.b{bits} %a, [%rd4]; ld.global.b{bits} %b, [%rd4+{width}];
           ld.global.b{bits} %c, [%rd4+{}];
           mov.b{bits} %d, 0;
           {body}
           st.global.b{bits} [%rd5], %d; ret; }}",
        3 * width,
        2 * width
    );
    let module = Module::parse(&text).unwrap_or_else(|e| panic!("{body}: {e}"));
    let mut results = Vec::new();
    for rows in rows.chunks(1024) {
        let mut memory = Memory::new(1 << 20);
        let input = memory.allocate((24 * rows.len()) as u64).expect("room");
        let output = memory.allocate((8 * rows.len()) as u64).expect("room");
        let bytes: Vec<u8> = rows
            .iter()
            .flatten()
            .flat_map(|v| v.to_le_bytes()[..width].to_vec())
            .collect();
        memory.write(input, &bytes).expect("in bounds");
        let params: Vec<u8> = [input, output]
            .iter()
            .flat_map(|a| a.to_le_bytes())
            .collect();
        let block = [rows.len() as u32, 1, 1];
        let shape = Launch {
            grid: [1; 3],
            block,
            dynamic_shared: 0,
            params: &params,
        };
        let report =
            launch(&module, "f", &mut memory, &shape, &Options::default()).expect("it runs");
        assert!(
            report.errors().next().is_none(),
            "{body}: {:?}",
            report.findings
        );
        let mut bytes = vec![0; width * rows.len()];
        memory.read(output, &mut bytes).expect("in bounds");
        results.extend(bytes.chunks(width).map(|c| {
            let mut all = [0; 8];
            all[..width].copy_from_slice(c);
            u64::from_le_bytes(all)
        }));
    }
    results
}

/// Runs `body` on a single row of words.
fn word(body: &str, a: u32, b: u32, c: u32) -> u32 {
    words(body, &[[a, b, c]])[0]
}

fn float(body: &str, a: f32, b: f32, c: f32) -> u32 {
    word(body, a.to_bits(), b.to_bits(), c.to_bits())
}

const NAN: u32 = 0x7fff_ffff;

#[test]
fn floats() {
    assert_eq!(float("add.f32 %d, %a, %b;", 1.0, f32::NAN, 0.0), NAN);
    assert_eq!(float("mul.f32 %d, %a, %b;", 0.0, f32::INFINITY, 0.0), NAN);
    assert_eq!(
        float("max.f32 %d, %a, %b;", f32::NAN, 2.0, 0.0),
        2f32.to_bits()
    );
    assert_eq!(float("max.NaN.f32 %d, %a, %b;", f32::NAN, 2.0, 0.0), NAN);
    assert_eq!(
        float("min.f32 %d, %a, %b;", -0.0, 0.0, 0.0),
        (-0f32).to_bits()
    );
    assert_eq!(float("max.f32 %d, %a, %b;", -0.0, 0.0, 0.0), 0);
    assert_eq!(
        float("add.sat.f32 %d, %a, %b;", 0.75, 0.75, 0.0),
        1f32.to_bits()
    );
    assert_eq!(float("add.sat.f32 %d, %a, %b;", f32::NAN, 0.75, 0.0), 0);
    let tiny = f32::MIN_POSITIVE;
    assert_eq!(float("mul.f32 %d, %a, %b;", tiny, 0.5, 0.0), 0x0040_0000);
    assert_eq!(
        float("mul.ftz.f32 %d, %a, %b;", -tiny, 0.5, 0.0),
        0x8000_0000
    );
    assert_eq!(
        float("add.ftz.f32 %d, %a, %b;", tiny / 2.0, tiny / 2.0, 0.0),
        0
    );
    assert_eq!(
        float("neg.f32 %d, %a;", f32::from_bits(0x7fc0_0001), 0.0, 0.0),
        0xffc0_0001
    );
    assert_eq!(
        float("copysign.f32 %d, %a, %b;", -1.0, 5.0, 0.0),
        (-5f32).to_bits()
    );
    assert_eq!(
        float("ex2.approx.f32 %d, %a;", 3.0, 0.0, 0.0),
        8f32.to_bits()
    );
    assert_eq!(
        float("lg2.approx.f32 %d, %a;", 0.0, 0.0, 0.0),
        f32::NEG_INFINITY.to_bits()
    );
    assert_eq!(
        float("rsqrt.approx.f32 %d, %a;", -0.0, 0.0, 0.0),
        f32::NEG_INFINITY.to_bits()
    );
    assert_eq!(
        float("tanh.approx.f32 %d, %a;", 100.0, 0.0, 0.0),
        1f32.to_bits()
    );
    assert_eq!(float("sqrt.rn.f32 %d, %a;", -1.0, 0.0, 0.0), NAN);
    assert_eq!(
        float("rcp.rn.f32 %d, %a;", -0.0, 0.0, 0.0),
        f32::NEG_INFINITY.to_bits()
    );
    // An exact zero sum is negative when rounding down.
    assert_eq!(float("add.rm.f32 %d, %a, %b;", 1.0, -1.0, 0.0), 0x8000_0000);
    assert_eq!(float("add.rn.f32 %d, %a, %b;", 1.0, -1.0, 0.0), 0);
}

/// Checks correct rounding in every direction by integer arithmetic: operands are small multiples
/// of powers of two, so results are exact in 128 bits.
#[test]
fn directed_rounding() {
    let mut state = 7u64;
    let mut next = move |bits: u32| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64 & ((1 << bits) - 1)
    };
    // A number is significand * 2^exponent.
    let mut operands = Vec::new();
    for _ in 0..3000 {
        operands.push([0; 3].map(|_| (next(24) - (1 << 23), (next(5) as i32) - 16)));
    }
    let value = |(m, e): (i64, i32)| m as f32 * (e as f32).exp2();
    let rows: Vec<[u32; 3]> = operands
        .iter()
        .map(|r| r.map(|o| value(o).to_bits()))
        .collect();
    // The number as an integer multiple of 2^-40.
    let fixed = |(m, e): (i64, i32), shift: i32| i128::from(m) << (shift + e);
    for (name, direction) in [("rn", 0), ("rz", 1), ("rm", 2), ("rp", 3)] {
        let fma = words(&format!("fma.{name}.f32 %d, %a, %b, %c;"), &rows);
        let add = words(&format!("add.{name}.f32 %d, %a, %b;"), &rows);
        let mul = words(&format!("mul.{name}.f32 %d, %a, %b;"), &rows);
        for (i, [a, b, c]) in operands.iter().copied().enumerate() {
            let product = fixed(a, 20) * fixed(b, 20);
            let cases = [
                (fma[i], product + (fixed(c, 20) << 20)),
                (add[i], (fixed(a, 20) + fixed(b, 20)) << 20),
                (mul[i], product),
            ];
            for (ours, exact) in cases {
                assert_eq!(
                    f32::from_bits(ours),
                    rounded(exact, direction),
                    "{name} of {a:?} {b:?} {c:?}"
                );
            }
        }
    }
}

/// `exact / 2^40`, rounded to f32 in a direction by comparing neighbours.
fn rounded(exact: i128, direction: u32) -> f32 {
    let magnitude = exact.unsigned_abs();
    let bits = 128 - magnitude.leading_zeros();
    let shift = bits.saturating_sub(24);
    let (low, rest) = (magnitude >> shift, magnitude & ((1u128 << shift) - 1));
    let half = 1u128 << shift >> 1;
    let negative = exact < 0;
    let up = match direction {
        0 => rest > half || rest == half && shift > 0 && low % 2 == 1,
        1 => false,
        2 => negative && rest != 0,
        _ => !negative && rest != 0,
    };
    let value = (low + u128::from(up)) as f32 * (shift as f32 - 40.0).exp2();
    if negative { -value } else { value }
}

#[test]
fn conversions() {
    assert_eq!(
        float("cvt.rzi.s32.f32 %d, %a;", -2.7, 0.0, 0.0),
        -2i32 as u32
    );
    assert_eq!(float("cvt.rni.s32.f32 %d, %a;", 2.5, 0.0, 0.0), 2);
    assert_eq!(
        float("cvt.rmi.s32.f32 %d, %a;", -2.1, 0.0, 0.0),
        -3i32 as u32
    );
    assert_eq!(
        float("cvt.rzi.s32.f32 %d, %a;", 1e20, 0.0, 0.0),
        i32::MAX as u32
    );
    assert_eq!(float("cvt.rzi.u32.f32 %d, %a;", -5.0, 0.0, 0.0), 0);
    assert_eq!(float("cvt.rzi.s32.f32 %d, %a;", f32::NAN, 0.0, 0.0), 0);
    assert_eq!(float("cvt.rzi.u8.f32 %d, %a;", 300.0, 0.0, 0.0), 255);
    assert_eq!(
        word("cvt.rn.f32.u32 %d, %a;", 16_777_217, 0, 0),
        16_777_216f32.to_bits()
    );
    assert_eq!(
        word("cvt.rp.f32.u32 %d, %a;", 16_777_217, 0, 0),
        16_777_218f32.to_bits()
    );
    assert_eq!(word("cvt.sat.s8.s32 %d, %a;", 300, 0, 0) as u8, 127);
    assert_eq!(word("cvt.sat.u8.s32 %d, %a;", -3i32 as u32, 0, 0) as u8, 0);
    assert_eq!(word("cvt.s32.s8 %d, %a;", 0x1ff, 0, 0), u32::MAX);
    assert_eq!(word("cvt.u32.u16 %d, %a;", 0x1_2345, 0, 0), 0x2345);
    assert_eq!(
        float("cvt.rni.f32.f32 %d, %a;", 3.5, 0.0, 0.0),
        4f32.to_bits()
    );
    assert_eq!(
        float("cvt.rn.bf16x2.f32 %d, %a, %b;", 1.0, -2.0, 0.0),
        0x3f80_c000
    );
    assert_eq!(
        float("cvt.rn.f16x2.f32 %d, %a, %b;", 1.0, 70000.0, 0.0),
        0x3c00_7c00
    );
    assert_eq!(
        float("cvt.rz.f16x2.f32 %d, %a, %b;", 1.0, 70000.0, 0.0),
        0x3c00_7bff
    );
    assert_eq!(
        float(
            "cvt.rna.tf32.f32 %d, %a;",
            f32::from_bits(0x3f80_1000),
            0.0,
            0.0
        ),
        0x3f80_2000
    );
    let narrow = "cvt.rn.satfinite.e4m3x2.f32 %h1, %a, %b; cvt.u32.u16 %d, %h1;";
    assert_eq!(float(narrow, 1.0, 1000.0, 0.0), 0x387e);
    let back = "cvt.u16.u32 %h1, %a; cvt.rn.f16x2.e5m2x2 %d, %h1;";
    assert_eq!(word(back, 0x3c7b, 0, 0), 0x3c00_7b00);
    let wide = |body: &str, a: f64| doubles(body, &[[a.to_bits(), 0, 0]])[0];
    assert_eq!(wide("cvt.rzi.s64.f64 %d, %a;", -1e300), i64::MIN as u64);
    assert_eq!(wide("cvt.rzi.u64.f64 %d, %a;", f64::NAN), 1 << 63);
    assert_eq!(
        doubles("cvt.rn.f64.s64 %d, %a;", &[[i64::MAX as u64, 0, 0]])[0],
        2f64.powi(63).to_bits()
    );
    assert_eq!(
        doubles("cvt.rz.f64.s64 %d, %a;", &[[i64::MAX as u64, 0, 0]])[0],
        2f64.powi(63).next_down().to_bits()
    );
}

#[test]
fn integers_and_bits() {
    assert_eq!(word("bfe.s32 %d, %a, 4, 4;", 0x80, 0, 0), 0xffff_fff8);
    assert_eq!(
        word("bfi.b32 %d, %a, %b, 8, 8;", 0xab, u32::MAX, 0),
        0xffff_abff
    );
    assert_eq!(word("shl.b32 %d, %a, %b;", 1, 32, 0), 0);
    assert_eq!(word("shr.s32 %d, %a, %b;", 0x8000_0000, 99, 0), u32::MAX);
    assert_eq!(
        word("shf.l.wrap.b32 %d, %a, %b, 36;", 0xf000_0000, 1, 0),
        0x1f
    );
    assert_eq!(word("shf.r.clamp.b32 %d, %a, %b, 40;", 5, 7, 0), 7);
    assert_eq!(
        word(
            "lop3.b32 %d, %a, %b, %c, 0xCA;",
            0xff00_ff00,
            0x1234_5678,
            0x9abc_def0
        ),
        0x12bc_56f0
    );
    assert_eq!(
        word("prmt.b32.b4e %d, %a, %b, 0;", 0x3322_1100, 0x7766_5544, 0),
        0x5566_7700
    );
    assert_eq!(word("mad.hi.s32 %d, %a, %b, 10;", -1i32 as u32, 5, 0), 9);
    assert_eq!(word("sad.u32 %d, %a, %b, %c;", 3, 10, 5), 12);
    assert_eq!(word("slct.s32.s32 %d, %a, %b, %c;", 1, 2, -1i32 as u32), 2);
    assert_eq!(
        word("set.lt.u32.s32 %d, %a, %b;", -1i32 as u32, 0, 0),
        u32::MAX
    );
    assert_eq!(
        word("set.lt.f32.s32 %d, %a, %b;", -1i32 as u32, 0, 0),
        0x3f80_0000
    );
    assert_eq!(
        word("add.sat.s32 %d, %a, %b;", i32::MAX as u32, 1, 0),
        i32::MAX as u32
    );
    assert_eq!(word("cnot.b32 %d, %a;", 0, 0, 0), 1);
    assert_eq!(word("bfind.shiftamt.u32 %d, %a;", 0x10, 0, 0), 27);
    assert_eq!(word("bfind.u32 %d, %a;", 0x10, 0, 0), 4);
    assert_eq!(word("bfind.s32 %d, %a;", u32::MAX, 0, 0), u32::MAX);
    assert_eq!(word("szext.clamp.s32 %d, %a, %b;", 0xff, 4, 0), u32::MAX);
    assert_eq!(word("bmsk.clamp.b32 %d, %a, %b;", 4, 8, 0), 0xff0);
    assert_eq!(
        word(
            "add.cc.u32 %r2, %a, %b; addc.u32 %d, %c, 0;",
            u32::MAX,
            1,
            5
        ),
        6
    );
    assert_eq!(
        word("sub.cc.u32 %r2, %a, %b; subc.u32 %d, %c, 0;", 0, 1, 5),
        4
    );
    assert_eq!(
        word(
            "cvt.u16.u32 %h1, %a; mul.hi.u16 %h2, %h1, %h1; cvt.u32.u16 %d, %h2;",
            0xffff,
            0,
            0
        ),
        0xfffe
    );
    assert_eq!(
        word(
            "cvt.u16.u32 %h1, %a; shr.s16 %h2, %h1, 4; cvt.u32.u16 %d, %h2;",
            0x8000,
            0,
            0
        ),
        0xf800
    );
    assert_eq!(
        word(
            "mov.b32 {%h1, %h2}, %a; mov.b32 %d, {%h2, %h1};",
            0x1234_5678,
            0,
            0
        ),
        0x5678_1234
    );
    assert_eq!(
        doubles("mul.hi.s64 %d, %a, %b;", &[[u64::MAX, 5, 0]])[0],
        u64::MAX
    );
    assert_eq!(
        doubles(
            "mov.b64 {%r2, %r3}, %a; mov.b64 %d, {%r3, %r2};",
            &[[1, 0, 0]]
        )[0],
        1 << 32
    );
    assert_eq!(
        doubles("shr.s64 %d, %a, 70;", &[[1 << 63, 0, 0]])[0],
        u64::MAX
    );
}

#[test]
fn comparisons_with_nan() {
    let holds = |how: &str, a: f32, b: f32| {
        float(
            &format!("setp.{how}.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;"),
            a,
            b,
            0.0,
        ) == 1
    };
    let pairs = [
        ("lt", "ltu"),
        ("le", "leu"),
        ("gt", "gtu"),
        ("ge", "geu"),
        ("eq", "equ"),
        ("ne", "neu"),
    ];
    for (ordered, unordered) in pairs {
        assert!(
            !holds(ordered, f32::NAN, 1.0) && holds(unordered, f32::NAN, 1.0),
            "{ordered}"
        );
        for (a, b) in [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0)] {
            assert_eq!(holds(ordered, a, b), holds(unordered, a, b), "{ordered}");
        }
    }
    assert!(holds("num", 1.0, 2.0) && !holds("num", 1.0, f32::NAN));
    assert!(!holds("nan", 1.0, 2.0) && holds("nan", 1.0, f32::NAN));
    let both = "setp.lt.and.f32 %p|%q, %a, %b, !%q; selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;";
    assert_eq!(float(both, 1.0, 2.0, 0.0), 1);
    assert_eq!(float(both, 3.0, 2.0, 0.0), 2);
}

#[test]
fn packed_halves() {
    assert_eq!(
        word("add.f16x2 %d, %a, %b;", 0x3c00_4000, 0x3c00_bc00, 0),
        0x4000_3c00
    );
    assert_eq!(
        word(
            "fma.rn.bf16x2 %d, %a, %b, %c;",
            0x3f80_4000,
            0x4000_4000,
            0x3f80_3f80
        ),
        0x4040_40a0
    );
    assert_eq!(
        word("max.NaN.bf16x2 %d, %a, %b;", 0x7fc0_3f80, 0x3f80_4000, 0),
        0x7fff_4000
    );
    assert_eq!(
        word(
            "fma.rn.relu.f16x2 %d, %a, %b, %c;",
            0xbc00_3c00,
            0x3c00_3c00,
            0
        ),
        0x0000_3c00
    );
    assert_eq!(
        word("ex2.approx.ftz.bf16x2 %d, %a;", 0x3f80_4040, 0, 0),
        0x4000_4100
    );
    // The exact result is 683 * 3 + 2^-14. In f32, the sum would be 2049, a tie that is rounded to
    // the even 2048.
    let body = "mov.b32 {%h1, %h2}, %a; mov.b32 {%h3, %h4}, %b; \
                fma.rn.f16 %h5, %h1, %h2, %h3; mov.b32 %d, {%h5, %h4};";
    assert_eq!(word(body, 0x4200_6156, 0x0400, 0), 0x6801);
    assert_eq!(word(body, 0x4200_6156, 0x8400, 0), 0x6800);
}
