//! Tests of the module builder.

use tegula_ir::{
    ArrayShape, Binary, ComputationId, Dim, Direction, DotDims, ElementType, Error, InstructionId,
    Literal, ModuleBuilder, Op, PadDim, PrintStyle, Shape, SliceDim, Unary, parse_module,
    print_module,
};

const F32: ElementType = ElementType::F32;
const S32: ElementType = ElementType::S32;

fn check(builder: ModuleBuilder, entry: ComputationId) -> String {
    let module = builder
        .build(entry)
        .unwrap_or_else(|errors| panic!("{errors:?}"));
    for style in [PrintStyle::Canonical, PrintStyle::Short] {
        let printed = print_module(&module, style);
        let again = parse_module(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        assert!(module.same_as(&again), "{printed}");
    }
    print_module(&module, PrintStyle::Short)
}

#[test]
fn layer_with_softmax() -> Result<(), Error> {
    let mut builder = ModuleBuilder::new("layer");
    let add = builder.reducer(Binary::Add, F32)?;
    let maximum = builder.reducer(Binary::Maximum, F32)?;
    let mut main = builder.computation("main");
    let x = main.named_parameter("x", Shape::array(F32, &[4, 8]));
    let w = main.named_parameter("w", Shape::array(F32, &[8, 16]));
    let dims = DotDims {
        lhs_contracting: [1].as_slice().into(),
        rhs_contracting: [0].as_slice().into(),
        ..DotDims::default()
    };
    let h = main.dot(x, w, dims)?;
    let low = main.scalar(f32::NEG_INFINITY)?;
    let top = main.reduce(h, low, &[1], maximum)?;
    let top = main.broadcast(top, &[4, 16], &[0])?;
    let shifted = main.binary(Binary::Subtract, h, top)?;
    let e = main.unary(Unary::Exp, shifted)?;
    let zero = main.scalar(0f32)?;
    let sum = main.reduce(e, zero, &[1], add)?;
    let sum = main.broadcast(sum, &[4, 16], &[0])?;
    let root = main.binary(Binary::Divide, e, sum)?;
    let entry = main.finish(root)?;
    let printed = check(builder, entry);
    assert!(
        printed.contains(
            "dot.2 = f32[4,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        ),
        "{printed}"
    );
    Ok(())
}

#[test]
fn data_movement_and_control() -> Result<(), Error> {
    let mut builder = ModuleBuilder::new("9 control/flow");
    let state = Shape::Tuple(vec![Shape::array(S32, &[]), Shape::array(F32, &[6])]);
    let mut condition = builder.computation("loop");
    let t = condition.parameter(state.clone());
    let i = condition.get_tuple_element(t, 0)?;
    let n = condition.scalar(3i32)?;
    let less = condition.compare(Direction::Lt, i, n)?;
    let condition = condition.finish(less)?;
    let mut body = builder.computation("loop");
    let t = body.parameter(state);
    let i = body.get_tuple_element(t, 0)?;
    let v = body.get_tuple_element(t, 1)?;
    let one = body.scalar(1i32)?;
    let next = body.binary(Binary::Add, i, one)?;
    let part = body.dynamic_slice(v, &[i], &[2])?;
    let v = body.dynamic_update_slice(v, part, &[one])?;
    let t = body.tuple(&[next, v])?;
    let body = body.finish(t)?;
    let mut main = builder.computation("main");
    let v = main.parameter(Shape::array(F32, &[6]));
    let reversed = main.reverse(v, &[0])?;
    let zero = main.scalar(0f32)?;
    let padded = main.pad(
        reversed,
        zero,
        &[PadDim {
            low: 1,
            high: 0,
            interior: 1,
        }],
    )?;
    let cut = main.slice(
        padded,
        &[SliceDim {
            start: 0,
            limit: 12,
            stride: 2,
        }],
    )?;
    let both = main.concatenate(&[cut, v], 0)?;
    let square = main.reshape(both, &[3, 4])?;
    let square = main.transpose(square, &[1, 0])?;
    let ids = main.iota(S32, &[4, 3], 1)?;
    let as_float = main.convert(ids, F32)?;
    let p = main.compare(Direction::Gt, square, as_float)?;
    let chosen = main.select(p, square, as_float)?;
    let counter = main.scalar(0i32)?;
    let init = main.tuple(&[counter, v])?;
    let done = main.while_loop(condition, body, init)?;
    let last = main.get_tuple_element(done, 1)?;
    let root = main.tuple(&[chosen, last])?;
    main.annotations_mut(root)?.sharding = Some("{replicated}".into());
    let entry = main.finish(root)?;
    let printed = check(builder, entry);
    assert!(
        printed.starts_with("HloModule _9_control_flow\n"),
        "{printed}"
    );
    assert!(printed.contains("\nloop.1 {"), "{printed}");
    Ok(())
}

#[test]
fn conditional_and_call() -> Result<(), Error> {
    let mut builder = ModuleBuilder::new("m");
    let mut double = builder.computation("double");
    let x = double.parameter(Shape::array(F32, &[2]));
    let y = double.binary(Binary::Add, x, x)?;
    let double = double.finish(y)?;
    let mut main = builder.computation("main");
    let x = main.parameter(Shape::array(F32, &[2]));
    let which = main.parameter(Shape::array(S32, &[]));
    let c = main.conditional(which, &[(double, x), (double, x)])?;
    let root = main.call(double, &[c])?;
    let entry = main.finish(root)?;
    check(builder, entry);
    Ok(())
}

#[test]
fn symbolic_sizes() -> Result<(), Error> {
    let mut builder = ModuleBuilder::new("m");
    let batch = builder.symbol("batch", 1, 1024);
    let mut main = builder.computation("main");
    let dims = [Dim::Symbolic(batch.clone()), Dim::Static(8)];
    let x = main.parameter(Shape::Array(ArrayShape {
        element_type: F32,
        dims: dims.into_iter().collect(),
        layout: None,
    }));
    let twice = main.concatenate(&[x, x], 0)?;
    let dim = main.array_shape(twice)?.dims.first().map(Dim::term);
    let expected = batch.add(&batch);
    assert_eq!(dim, Some(expected));
    let zero = main.scalar(0f32)?;
    let padded = main.pad(
        x,
        zero,
        &[PadDim {
            low: 1,
            high: 1,
            interior: 0,
        }; 2],
    )?;
    assert_eq!(main.shape(padded)?.to_string(), "f32[?,10]");
    let y = main.binary(Binary::Multiply, x, x)?;
    assert_eq!(main.shape(y)?, main.shape(x)?);
    let entry = main.finish(y)?;
    assert!(builder.build(entry).is_ok());
    Ok(())
}

#[test]
fn mistakes_are_errors_at_once() -> Result<(), Error> {
    let mut builder = ModuleBuilder::new("m");
    let mut main = builder.computation("main");
    let x = main.parameter(Shape::array(F32, &[2]));
    let y = main.parameter(Shape::array(F32, &[3]));
    assert!(main.binary(Binary::Add, x, y).is_err());
    assert!(main.push(Op::Reshape, &[x]).is_err());
    assert!(main.push(Op::Convert, &[x]).is_err());
    assert!(main.get_tuple_element(x, 0).is_err());
    assert!(main.unary(Unary::Abs, InstructionId::from_u32(99)).is_err());
    assert!(main.call(ComputationId::from_u32(0), &[x]).is_err());
    assert!(main.finish(InstructionId::from_u32(99)).is_err());
    // The unfinished computation added nothing to the module.
    let mut main = builder.computation("main");
    let x = main.parameter(Shape::array(F32, &[2]));
    // The builder leaves a wrong shape to the verifier.
    let wrong = main.push_with_shape(Op::Unary(Unary::Abs), &[x], Shape::array(F32, &[5]))?;
    let entry = main.finish(wrong)?;
    let errors = builder.build(entry).expect_err("a wrong shape");
    assert_eq!(errors.len(), 1);
    assert_eq!(
        errors[0].to_string(),
        "`abs.1`: the shape should be f32[2], found f32[5]"
    );
    Ok(())
}

#[test]
fn tuple_constants() -> Result<(), Error> {
    let mut builder = ModuleBuilder::new("m");
    let mut main = builder.computation("main");
    let literals = [Literal::from_value(1.5f32), Literal::from_value(2i32)];
    let shape = Shape::Tuple(vec![Shape::array(F32, &[]), Shape::array(S32, &[])]);
    let c = main.push_with_shape(Op::Constant(literals.into()), &[], shape)?;
    let entry = main.finish(c)?;
    assert!(check(builder, entry).contains("constant(( 1.5, 2 ))"));
    Ok(())
}
