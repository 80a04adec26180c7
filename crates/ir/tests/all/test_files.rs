//! Forms of HLO text in XLA's own test files.

use tegula_ir::{
    ArrayShape, Literal, Module, Op, ReadOptions, ReplicaGroups, Scalar, parse_module,
    parse_module_with, verify,
};

#[track_caller]
fn read(text: &str) -> Module {
    let module = parse_module(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    verify(&module).unwrap_or_else(|errors| panic!("{}\n{text}", errors[0]));
    module
}

#[track_caller]
fn error(text: &str) -> String {
    match parse_module(text) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("accepted:\n{text}"),
    }
}

#[test]
fn commands_in_front_are_skipped() {
    let program = "HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }";
    for front in [
        "# RUN: hlo-opt %s | FileCheck %s\n",
        "\n  # a\n#b\n\n",
        "// RUN: x\n",
    ] {
        assert_eq!(&*read(&format!("{front}{program}")).name, "m");
    }
    assert!(error("# RUN: nothing").contains("the text is empty"));
    assert!(error(&format!("{program}\n# end")).contains('#'));
}

#[test]
fn random_numbers_may_repeat_their_shape() {
    let module = read(
        "e { a = f32[] constant(0)
           b = f32[] constant(1)
           n = u64[2] constant({8, 4})
           ROOT r = f32[8,4] rng(a, b, n), distribution=rng_uniform }",
    );
    let root = module.entry_computation().root;
    assert_eq!(module[root].operands.len(), 2);
}

#[test]
fn a_number_fills_an_array() {
    let module = read("e { ROOT c = s8[2,5] constant(3), metadata={op_name=\"c\"} }");
    let root = module.entry_computation().root;
    assert!(matches!(module[root].op, Op::Broadcast(_)));
    let constant = module[root].operands[0];
    let Op::Constant(literals) = &module[constant].op else {
        panic!("{:?}", module[constant].op)
    };
    assert_eq!(literals[0].scalar(0), Some(Scalar::Int(3)));
    read("e { a = pred[7] constant(true) ROOT b = f32[3] constant(-inf) }");
    read("e { a = c64[7] constant(2) ROOT b = c64[3] constant((1, -2)) }");
    // The broadcast takes memory only for the number that is written.
    read("e { ROOT c = f32[1000000000,1000000] constant(1.5) }");
}

#[test]
fn computations_in_place_of_their_names() {
    let module = read(
        "fused {
           p = f32[4,8] parameter(0)
           zero = f32[] constant(0)
           ROOT r = f32[4] reduce(p, zero), dimensions={1}, to_apply={
             a = f32[] parameter(0)
             b = f32[] parameter(1)
             ROOT s = f32[] add(a, b)
           }, metadata={op_name=\"r\"}
         }
         inline.0 { ROOT p = f32[4] parameter(0) }
         ENTRY e {
           p = f32[4,8] parameter(0)
           i = s32[] parameter(1)
           f = f32[4] fusion(p), kind=kLoop, calls=fused
           ROOT c = f32[4] conditional(i, f, f), branch_computations={inline.0, {
             q = f32[4] parameter(0)
             ROOT n = f32[4] negate(q)
           }}
         }",
    );
    assert_eq!(module.computations.len(), 5);
    assert!(
        error("e { p = f32[2] parameter(0) ROOT c = f32[2] call(p), to_apply={ } }")
            .contains("no instructions")
    );
}

#[track_caller]
fn groups(text: &str) -> ReplicaGroups {
    let module = read(&format!(
        "ENTRY e {{ p = f32[8] parameter(0)
           ROOT r = f32[8] all-reduce(p), replica_groups={text}, to_apply={{
             a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }} }}"
    ));
    let Op::AllReduce { collective, .. } = &module[module.entry_computation().root].op else {
        panic!("no all-reduce")
    };
    collective.replica_groups.clone()
}

#[test]
fn groups_along_the_axes_of_a_mesh() {
    let iota = |dims: [i64; 2], reshape: &[i64], transpose: &[i64]| ReplicaGroups::Iota {
        dims: dims.as_slice().into(),
        reshape_dims: reshape.into(),
        transpose: transpose.into(),
    };
    let lists = |groups: &[&[i64]]| {
        ReplicaGroups::Lists(groups.iter().map(|group| group.to_vec()).collect())
    };
    let mesh = "mesh['axis_0'=2,'axis_1'=4]";
    assert_eq!(
        groups(&format!("{mesh} {{'axis_1'}}")),
        iota([2, 4], &[2, 4], &[0, 1])
    );
    assert_eq!(
        groups(&format!("{mesh} {{'axis_0'}}")),
        iota([4, 2], &[2, 4], &[1, 0])
    );
    assert_eq!(
        groups(&format!("{mesh} {{'1','0'}}")),
        iota([1, 8], &[2, 4], &[1, 0])
    );
    assert_eq!(
        groups(&format!("{mesh} {{'axis_1':(2)2}}")),
        iota([4, 2], &[2, 2, 2], &[0, 1, 2])
    );
    assert_eq!(
        groups(&format!("{mesh} {{'axis_1':(1)2,'axis_0'}}")),
        iota([2, 4], &[2, 2, 2], &[2, 1, 0])
    );
    assert_eq!(
        groups("mesh['a'=2,'b'=2], device_ids=(3,1,2,0) {'a'}"),
        lists(&[&[3, 2], &[1, 0]])
    );
    assert_eq!(
        groups("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'b'}"),
        lists(&[&[0, 2], &[1, 3]])
    );
    assert_eq!(groups("maximal_mesh[device_id=5] {}"), lists(&[&[5]]));
    for wrong in [
        "mesh['a'=3] {'a':(2)2}",
        "mesh['a'=4] {'c'}",
        "mesh['a'=4], device_ids=(1,2) {'a'}",
        "mesh['a'=4], device_ids=([2,2]T(1,1)) {'a'}",
        "mesh['a'=9223372036854775807,'b'=2] {'a'}",
        "mesh['a'=-1] {'a'}",
        "mesh['a'=4] {'a':(0)4}",
        "mesh['a'=4] {'a':(1)4,'a':(2)2}",
    ] {
        let text = format!(
            "ENTRY e {{ p = f32[8] parameter(0) ROOT r = f32[8] all-to-all(p), dimensions={{0}}, \
             replica_groups={wrong} }}"
        );
        error(&text);
    }
}

#[test]
fn a_second_module_is_named_as_such() {
    let module = "HloModule m\nENTRY e { ROOT p = f32[2] parameter(0) }\n";
    assert!(error(&format!("{module}{module}")).contains("a second module begins here"));
    // A computation may have any name.
    read("HloModule m HloModule { ROOT p = f32[2] parameter(0) }");
}

#[test]
fn elided_constants_are_made_up_where_that_is_asked() {
    let text = "e { a = f32[2,3] constant({...}) b = s32[4] constant({...}) ROOT t = (f32[2,3], s32[4]) tuple(a, b) }";
    assert!(error(text).contains("left out"));
    let fill = |shape: &ArrayShape, number: u64| {
        let values = std::iter::repeat_n(Scalar::Int(number as i64 + 7), 6);
        let count = shape.element_count().unwrap_or_default() as usize;
        Literal::from_scalars(shape, values.take(count))
            .map_err(|error| tegula_ir::Error::input(error.to_string()))
    };
    let options = ReadOptions {
        fill_elided: Some(&fill),
    };
    let module = parse_module_with(text, &options).expect("it reads");
    let first = |name: &str| {
        let found = module.instructions.values().find(|i| &*i.name == name);
        match found.map(|i| &i.op) {
            Some(Op::Constant(literals)) => literals[0].scalar(0),
            _ => None,
        }
    };
    assert_eq!(first("a"), Some(Scalar::Float(7.0)));
    assert_eq!(first("b"), Some(Scalar::Int(8)));
}
