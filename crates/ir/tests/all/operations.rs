//! Every operation and every attribute is read, verified, printed and read again.

use std::collections::BTreeSet;
use tegula_ir::{
    Layout, Op, Opcode, PrintStyle, Shape, parse_literal, parse_module, parse_shape, print_module,
    verify,
};

const TEXT: &str = include_str!("../data/operations.hlo");

#[test]
fn every_operation_reads_verifies_and_prints() {
    let module = parse_module(TEXT).unwrap_or_else(|error| panic!("{error}"));
    if let Err(errors) = verify(&module) {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}", errors.join("\n"));
    }
    for style in [PrintStyle::Canonical, PrintStyle::Short] {
        let printed = print_module(&module, style);
        let again = parse_module(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        assert!(module.same_as(&again), "{printed}");
        assert_eq!(print_module(&again, style), printed);
    }
    let seen: BTreeSet<Opcode> = module
        .instructions
        .values()
        .map(|i| i.op.opcode())
        .collect();
    let missing: Vec<Opcode> = Opcode::ALL
        .iter()
        .copied()
        .filter(|opcode| !seen.contains(opcode))
        .filter(|&opcode| tegula_ir::Unary::from_opcode(opcode).is_none())
        .filter(|&opcode| tegula_ir::Binary::from_opcode(opcode).is_none())
        .collect();
    // Their operands are too many or too unusual for the common program.
    let elsewhere = [Opcode::DynamicReshape, Opcode::RaggedAllToAll, Opcode::Scan];
    assert_eq!(missing, elsewhere);
}

/// Lines in normal form are printed as they were read.
#[test]
fn lines_print_as_written() {
    let module = parse_module(TEXT).expect("reads");
    let printed = print_module(&module, PrintStyle::Canonical).replace('%', "");
    let printed: BTreeSet<&str> = printed.lines().map(str::trim).collect();
    let changed: Vec<&str> = TEXT
        .lines()
        .map(str::trim)
        .filter(|line| line.contains(" = ") && !printed.contains(line))
        .filter_map(|line| line.split(' ').next())
        .collect();
    // Short forms, typed operands, 1e-5 for 1e-05, and padding and constants that are written
    // differently but mean the same.
    assert_eq!(
        changed,
        [
            "bn", "sg", "sn", "tc", "lit", "e5", "ep", "pr", "nested", "ROOT"
        ]
    );
}

#[test]
fn every_elementwise_operation() {
    let all = tegula_ir::Unary::ALL.iter().map(|op| (op.opcode(), 1));
    for (opcode, count) in all.chain(tegula_ir::Binary::ALL.iter().map(|op| (op.opcode(), 2))) {
        let accepted = ["f32", "s32", "u8", "pred", "c64"].iter().filter(|ty| {
            let operands = ["x", "x"][..count].join(", ");
            let text = format!("e {{ x = {ty}[3] parameter(0) y = {opcode}({operands}) }}");
            parse_module(&text).is_ok_and(|module| verify(&module).is_ok())
        });
        assert!(accepted.count() > 0, "{opcode}");
    }
}

#[test]
fn scan_dynamic_reshape_and_ragged_all_to_all() {
    let text = "
step { x = f32[] parameter(0) c = f32[] parameter(1) s = f32[] add(c, x) ROOT t = (f32[], f32[]) tuple(s, s) }
ENTRY e {
  c = f32[] parameter(0)
  x = f32[8] parameter(1)
  n = s32[] parameter(2)
  o = s64[4] parameter(3)
  s = (f32[8], f32[]) scan(x, c), dimensions={0}, num_carries=1, is_reverse=true, is_associative=true, to_apply=step
  r = f32[<=8,1] dynamic-reshape(x, n, n)
  ROOT a = f32[8] ragged-all-to-all(x, x, o, o, o, o), replica_groups={{0,1}}
}";
    let module = parse_module(text).unwrap_or_else(|error| panic!("{error}"));
    assert!(verify(&module).is_ok());
    let printed = print_module(&module, PrintStyle::Canonical);
    assert!(module.same_as(&parse_module(&printed).expect("reads")));
}

#[test]
fn shapes_print_as_written() {
    for text in [
        "f32[]",
        "pred[2,3]{1,0}",
        "bf16[2,8,128]{2,1,0:T(8,128)(2,1)}",
        "u32[]{:T(128)}",
        "u32[]{:S(2)}",
        "f32[?,3]{1,0}",
        "s4[<=8]{0:E(4)}",
        "(f32[2]{0}, s32[], token[], opaque[])",
        "()",
        "((), (f32[]))",
        "b(f32[2]{0})",
        "f32[150,200,100]{0,1,2:SC(0:30)(1:40,130)}",
        "f32[8]{0:T(*,4)L(128)S(1)}",
        "f8e4m3b11fnuz[1]{0}",
        "f6e3m2fn[4]{0}",
        "c128[0]{0}",
        "f32[4]{0:M(16)}",
        "f32[2,2]",
        "(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[])",
    ] {
        let shape = parse_shape(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(shape.to_string(), text);
    }
    // Dimension level types and trivial padding are dropped.
    assert_eq!(
        parse_shape("f32[2]{0:D(D+~)T(2)L(1)}")
            .expect("reads")
            .to_string(),
        "f32[2]{0:T(2)}"
    );
    assert_eq!(
        parse_shape("f32[]{}").expect("reads"),
        parse_shape("f32[]").expect("reads")
    );
    let layout = parse_shape("f32[2,3]{1,0}").expect("reads");
    let layout = layout.as_array().and_then(|array| array.layout.clone());
    assert_eq!(layout.as_deref(), Some(&Layout::row_major(2)));
}

#[test]
fn literals_print_as_xla_does() {
    for (text, printed) in [
        ("f32[] 0.1", "0.1"),
        ("f32[] 0.3333333333", "0.333333343"),
        ("f32[] 1e-5", "1e-05"),
        ("f32[] 123456", "123456"),
        ("f32[] 1234567", "1234567"),
        ("f32[] 16777216", "16777216"),
        ("f32[] 1e20", "1e+20"),
        ("f32[] -0", "-0"),
        ("f32[] nan(0x7f)", "nan(0x7f)"),
        ("f32[] -nan", "-nan"),
        ("f64[] 0.1", "0.1"),
        ("f64[] 0.3333333333333333", "0.33333333333333331"),
        ("bf16[] -1e9", "-9.982e+08"),
        ("f16[] 65504", "65504"),
        ("f16[] 0.1", "0.099976"),
        ("f8e5m2[] 448", "4.5e+02"),
        ("f8e4m3fn[] -nan", "-nan"),
        ("f8e4m3fnuz[] -nan", "nan"),
        ("f8e8m0fnu[] 0.5", "0.5"),
        ("c64[] (1, -nan)", "(1, -nan)"),
        ("c64[] 2", "(2, 0)"),
        ("s4[] -8", "-8"),
        ("u64[] 18446744073709551615", "18446744073709551615"),
        ("pred[] true", "true"),
        ("pred[2] {true, 0}", "{1, 0}"),
        ("f32[1,1] {{256}}", "{ {256} }"),
        ("s32[2,2] {{1,2},{3,4}}", "{ { 1, 2 }, { 3, 4 } }"),
        ("s32[0] {}", "{}"),
        ("s32[2,0] {{},{}}", "{ {}, {} }"),
        ("s32[2,0,3] {}", "{ { }, { } }"),
        ("s32[2,0,1,1] {}", "{ { /*i0=0*/ }, { /*i0=1*/ } }"),
        ("s32[9999999,0] {}", "{}"),
        ("u64[] -1", "18446744073709551615"),
        (
            "s32[1,1,1,2] { { { {1,2} } } }",
            "{ { /*i0=0*/ { /*i1=0*/ { 1, 2 } } } }",
        ),
    ] {
        let literals = parse_literal(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(literals.len(), 1);
        assert_eq!(literals[0].to_string(), printed, "{text}");
    }
    assert_eq!(
        parse_literal("(s32[], (f32[2], s32[])) (1, ({2, 3}, 4))").map(|l| l.len()),
        Ok(3)
    );
}

/// XLA's reader once assigned a NaN real part to the imaginary part.
#[test]
fn complex_nan_stays_in_its_part() {
    let literals = parse_literal("c64[] (nan, 7)").expect("reads");
    let values = literals[0].as_c64s().expect("c64");
    assert!(values[0].re.is_nan() && values[0].im == 7.0);
}

#[test]
fn bare_computations_and_instructions() {
    let module =
        parse_module("%f (x: f32[2]) -> f32[2] { %x = f32[2] parameter(0) ROOT %y = abs(%x) }");
    assert_eq!(module.map(|m| m.name.to_string()), Ok("f".to_owned()));
    let module = parse_module("ROOT y = f32[2] add(f32[2] a, f32[2] b)\n").expect("reads");
    assert_eq!(module.entry_computation().parameters.len(), 2);
    assert!(verify(&module).is_ok());
    let module = parse_module("x = f32[] parameter(0)\ny = abs(negate(x))\nz = add(y, f32[] q)");
    let module = module.expect("reads");
    assert_eq!(module.entry_computation().parameters.len(), 2);
    assert!(verify(&module).is_ok());
}

#[test]
fn callers_may_come_first_and_the_entry_in_the_middle() {
    let text = "HloModule m
g { x = f32[] parameter(0) y = call(x), to_apply=f }
ENTRY e { x = f32[] parameter(0) y = call(x), to_apply=g }
f { x = f32[] parameter(0) y = abs(x) }";
    let module = parse_module(text).expect("reads");
    let names: Vec<&str> = module.computations.values().map(|c| &*c.name).collect();
    assert_eq!(names, ["f", "g", "e"]);
    assert_eq!(&*module.entry_computation().name, "e");
    assert!(verify(&module).is_ok());
}

#[test]
fn headers_round_trip() {
    let text = "HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, must-alias) }, \
buffer_donor={ (2, {}) }, entry_computation_layout={(f32[2]{0}, f32[2]{0}, s32[])->(f32[2]{0}, f32[2]{0})}, \
allow_spmd_sharding_propagation_to_output={true,false}, replica_count=2, num_partitions=4, \
frontend_attributes={a=\"b\",xla.sdy.meshes={empty_mesh = #sdy.mesh<[]>}}

FileNames
1 \"a.py\"
2 \"b \\\"c\\\".py\"

FunctionNames
1 \"main\"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY %e (a: f32[2], b: f32[2], c: s32[]) -> (f32[2], f32[2]) {
  %a = f32[2]{0} parameter(0)
  %b = f32[2]{0} parameter(1)
  %c = s32[] parameter(2)
  ROOT %t = (f32[2]{0}, f32[2]{0}) tuple(%b, %a)
}
";
    let module = parse_module(text).unwrap_or_else(|error| panic!("{error}"));
    assert!(verify(&module).is_ok());
    assert_eq!(print_module(&module, PrintStyle::Canonical), text);
}

#[test]
fn open_sizes_become_symbols() {
    let text = "HloModule m, entry_computation_layout={(f32[?,8]{1,0}, s32[<=4]{0})->f32[?,8]{1,0}}

ENTRY %e (x: f32[?,8], y: s32[<=4]) -> f32[?,8] {
  %x = f32[?,8]{1,0} parameter(0)
  %y = s32[<=4]{0} parameter(1)
  %z = f32[?,8]{1,0} exponential(%x)
  %w = s32[<=8]{0} concatenate(%y, %y), dimensions={0}
  %r = f32[?]{0} reshape(%x)
  ROOT %s = f32[?,8]{1,0} add(%x, %z)
}
";
    let module = parse_module(text).unwrap_or_else(|error| panic!("{error}"));
    assert!(verify(&module).is_ok());
    assert_eq!(print_module(&module, PrintStyle::Canonical), text);
    let names: Vec<&str> = module.symbols.iter().map(|symbol| &*symbol.name).collect();
    assert_eq!(names, ["p0_d0", "p1_d0"]);
    assert_eq!(module.symbols[1].upper, 4);
    let root = &module[module.entry_computation().root];
    assert_eq!(root.shape.as_array().map(|a| &a.dims), {
        let parameter = module.entry_computation().parameters[0];
        module[parameter].shape.as_array().map(|a| &a.dims)
    });
}

#[test]
fn async_sugar_is_written_out() {
    let module = parse_module(TEXT).expect("reads");
    let start = module
        .instructions
        .values()
        .find(|i| &*i.name == "sg")
        .expect("there");
    let Op::AsyncStart { calls, thread } = &start.op else {
        panic!("{:?}", start.op)
    };
    assert_eq!(thread.as_deref(), Some("side"));
    assert_eq!(module[*calls].execution_thread.as_deref(), Some("side"));
    assert_eq!(module[module[*calls].root].op.opcode(), Opcode::Negate);
    assert!(matches!(module[module[*calls].root].shape, Shape::Array(_)));
}

/// Values with random bits, including NaN payloads, are read back from their text unchanged.
#[test]
fn literals_read_back_bit_by_bit() {
    let mut state = 3u64;
    for &ty in tegula_ir::ElementType::ALL {
        for round in 0..200u32 {
            let mut literal =
                tegula_ir::Literal::zeros(&tegula_ir::ArrayShape::new(ty, &[4, 2])).expect("small");
            for byte in literal.bytes_mut() {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                // Bytes of all ones make NaNs and infinities.
                *byte = if state >> 60 < 4 {
                    0xff
                } else {
                    (state >> 40) as u8
                };
            }
            // Types narrower than their bytes, and pred, are stored extended.
            if ty.bits() < 8 || ty == tegula_ir::ElementType::Pred {
                let values: Vec<_> = literal.scalars().collect();
                literal = tegula_ir::Literal::from_scalars(literal.shape(), values).expect("fits");
            }
            let text = format!("{ty}[4,2] {literal}");
            let again = parse_literal(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(again[0] == literal, "{text}, round {round}");
        }
    }
}

/// Arrays are numbered through tuples and past tokens, and converting a call to run again changes
/// nothing.
#[test]
fn calls_to_run_number_the_arrays_that_lie_in_place() {
    let text = "HloModule m ENTRY e {
      t = token[] after-all()
      a = f32[2] parameter(0)
      b = f32[3] parameter(1)
      pair = (f32[2], f32[3]) tuple(a, b)
      c = (f32[4], (token[], f32[3], f32[2])) custom-call(t, a, pair), custom_call_target=\"f\",
        output_to_operand_aliasing={{1,1}: (2, {1}), {1,2}: (1, {}), {1,0}: (0, {})}
      ROOT d = f32[3] custom-call(b), custom_call_target=\"g\",
        output_to_operand_aliasing={{}: (0, {})}
    }";
    let module = parse_module(text).expect("a program");
    let calls = module.instructions.keys();
    let calls: Vec<_> = calls
        .filter_map(|id| module.custom_call_to_run(id))
        .collect();
    let in_place = |call: &tegula_ir::CustomCall| call.in_place().collect::<Vec<_>>();
    assert_eq!(in_place(&calls[0]), [(2, 1), (0, 2)]);
    assert_eq!(in_place(&calls[1]), [(0, 0)]);
    let root = &module[module.entry_computation().root];
    let again = calls[1].to_run(None, &[&root.shape], &root.shape);
    assert_eq!(again, calls[1]);
}
