//! Checks that called computations fit their callers.

use crate::{
    ArrayShape, ComputationId, CustomCall, Dim, ElementType, Error, Instruction, Lapack, Module,
    Op, Shape, lapack_target,
};
use smallvec::SmallVec;
use tegula_expr::Term;

/// The signature of a called computation.
struct Signature<'m> {
    name: &'m str,
    parameters: SmallVec<[&'m Shape; 4]>,
    result: &'m Shape,
}

fn signature(module: &Module, id: ComputationId) -> Signature<'_> {
    let callee = &module.computations[id];
    Signature {
        name: &callee.name,
        parameters: callee
            .parameters
            .iter()
            .map(|&id| &module.instructions[id].shape)
            .collect(),
        result: &module.instructions[callee.root].shape,
    }
}

impl Signature<'_> {
    fn expect_parameters(&self, expected: &[&Shape]) -> Result<(), Error> {
        let count = expected.len();
        if self.parameters.len() != count {
            return Err(Error::input(format!(
                "number of parameters of `{}`: expected {count}, found {}",
                self.name,
                self.parameters.len()
            )));
        }
        for (number, (found, expected)) in self.parameters.iter().zip(expected).enumerate() {
            if !found.may_equal(expected) {
                return Err(Error::input(format!(
                    "parameter {number} of `{}` must be {expected:#}, found {found:#}",
                    self.name
                )));
            }
        }
        Ok(())
    }

    fn expect_result(&self, expected: &Shape) -> Result<(), Error> {
        match self.result.may_equal(expected) {
            true => Ok(()),
            false => Err(Error::input(format!(
                "`{}` must return {expected:#}, but it returns {:#}",
                self.name, self.result
            ))),
        }
    }
}

fn scalar(ty: ElementType) -> Shape {
    Shape::array(ty, &[])
}

/// The element types of array operands.
fn types(operands: &[&Shape]) -> SmallVec<[ElementType; 4]> {
    operands
        .iter()
        .filter_map(|shape| Some(shape.as_array()?.element_type))
        .collect()
}

/// Checks that `callee` combines accumulators and values of these types.
fn check_reducer(
    module: &Module,
    callee: ComputationId,
    types: &[ElementType],
) -> Result<(), Error> {
    let scalars: Vec<Shape> = types.iter().map(|&ty| scalar(ty)).collect();
    let parameters: Vec<&Shape> = scalars.iter().chain(&scalars).collect();
    let signature = signature(module, callee);
    signature.expect_parameters(&parameters)?;
    match scalars.as_slice() {
        [one] => signature.expect_result(one),
        _ => signature.expect_result(&Shape::Tuple(scalars)),
    }
}

/// Checks that `callee` takes two scalars and returns one, all of the same type. That type is the
/// callee's own, because the operands of one all-reduce may have different types.
fn check_collective(module: &Module, callee: ComputationId) -> Result<(), Error> {
    let ty = signature(module, callee)
        .result
        .as_array()
        .map(|array| array.element_type);
    check_reducer(module, callee, &[ty.unwrap_or(ElementType::F32)])
}

/// Checks the computations that an instruction calls; their ids are valid.
pub(super) fn check(
    module: &Module,
    instruction: &Instruction,
    operands: &[&Shape],
) -> Result<(), Error> {
    match &instruction.op {
        Op::Reduce { to_apply, .. } | Op::ReduceWindow { to_apply, .. } => {
            let (_, inits) = operands.split_at(operands.len() / 2);
            check_reducer(module, *to_apply, &types(inits))
        }
        Op::Scatter { to_apply, .. } => {
            let (inputs, _) = operands.split_at(operands.len() / 2);
            check_reducer(module, *to_apply, &types(inputs))
        }
        Op::AllReduce { to_apply, .. } | Op::ReduceScatter { to_apply, .. } => {
            check_collective(module, *to_apply)
        }
        Op::SelectAndScatter {
            select, scatter, ..
        } => {
            let types = types(operands.get(..1).unwrap_or_default());
            check_reducer(module, *scatter, &types)?;
            check_comparator(module, *select, &types)
        }
        Op::Sort { to_apply, .. } => check_comparator(module, *to_apply, &types(operands)),
        Op::Map { to_apply, .. } => {
            let scalars: Vec<Shape> = types(operands).into_iter().map(scalar).collect();
            let parameters: Vec<&Shape> = scalars.iter().collect();
            signature(module, *to_apply).expect_parameters(&parameters)
        }
        Op::Scan {
            dimension,
            num_carries,
            to_apply,
            ..
        } => check_scan(module, (*dimension, *num_carries), *to_apply, operands),
        Op::Call { to_apply, .. } => signature(module, *to_apply).expect_parameters(operands),
        Op::Fusion { calls, .. } | Op::AsyncStart { calls, .. } => {
            signature(module, *calls).expect_parameters(operands)
        }
        Op::While { condition, body } => {
            let condition = signature(module, *condition);
            condition.expect_parameters(operands)?;
            condition.expect_result(&scalar(ElementType::Pred))?;
            let body = signature(module, *body);
            body.expect_parameters(operands)?;
            body.expect_result(&instruction.shape)
        }
        Op::Conditional {
            branches,
            predicated,
        } => check_branches(module, instruction, branches, *predicated, operands),
        Op::AsyncUpdate | Op::AsyncDone => {
            let start = instruction
                .operands
                .first()
                .map(|&id| &module.instructions[id].op);
            match start {
                Some(Op::AsyncStart { .. } | Op::AsyncUpdate) => Ok(()),
                _ => Err(Error::input(
                    "the operand must be an async-start or async-update",
                )),
            }
        }
        Op::CustomCall(call) => match &call.operand_layouts {
            Some(layouts) if layouts.len() != operands.len() => Err(Error::input(format!(
                "{} operand layouts for {} operands",
                layouts.len(),
                operands.len()
            ))),
            _ if &*call.target == "LuDecomposition" => check_lu(instruction, operands),
            _ => check_lapack(instruction, call, operands),
        },
        _ => Ok(()),
    }
}

/// Checks the step of a scan: it takes inputs without the scanned dimension, then the carries, and
/// its last results have the carries' shapes.
fn check_scan(
    module: &Module,
    (dimension, carries): (i64, i64),
    step: ComputationId,
    operands: &[&Shape],
) -> Result<(), Error> {
    let carries = usize::try_from(carries).unwrap_or(usize::MAX);
    let inputs = operands.len().saturating_sub(carries);
    let dimension = usize::try_from(dimension).unwrap_or(usize::MAX);
    let mut parameters: Vec<Shape> = operands.iter().map(|&shape| shape.clone()).collect();
    for shape in &mut parameters[..inputs] {
        if let Shape::Array(array) = shape
            && dimension < array.rank()
        {
            array.dims.remove(dimension);
        }
    }
    let signature = signature(module, step);
    let parameters: Vec<&Shape> = parameters.iter().collect();
    signature.expect_parameters(&parameters)?;
    let given = signature.result;
    let given = given.as_tuple().unwrap_or(std::slice::from_ref(given));
    let outputs = given.len().saturating_sub(carries);
    for (number, (given, expected)) in given[outputs..].iter().zip(&operands[inputs..]).enumerate()
    {
        if !given.may_equal(expected) {
            return Err(Error::input(format!(
                "`{}` must return {expected:#} as carry {number}, but it returns {given:#}",
                signature.name
            )));
        }
    }
    Ok(())
}

/// Checks the result shape of a LAPACK routine that is not left to a handler. Invalid options and
/// unknown sizes are reported where they matter.
fn check_lapack(
    instruction: &Instruction,
    call: &CustomCall,
    operands: &[&Shape],
) -> Result<(), Error> {
    let routine = Lapack::of(&call.to_run(
        instruction.annotations.as_deref(),
        operands,
        &instruction.shape,
    ));
    let (Some(Ok(routine)), Some((ty, _))) = (routine, lapack_target(&call.target)) else {
        return Ok(());
    };
    let is_open = |shape: &Shape| shape.as_array().is_some_and(|a| a.static_dims().is_none());
    if operands.iter().any(|shape| is_open(shape)) {
        return Ok(());
    }
    let expected = routine.result(ty, operands).map_err(Error::input)?;
    match instruction.shape.may_equal(&expected) {
        true => Ok(()),
        false => Err(Error::input(format!(
            "the routine returns {expected:#}, not {:#}",
            instruction.shape
        ))),
    }
}

/// Checks the shapes of XLA's custom call for LU: both factors in one matrix, the row that each row
/// is swapped with, and the permutation of all rows.
fn check_lu(instruction: &Instruction, operands: &[&Shape]) -> Result<(), Error> {
    let [operand] = operands else {
        return Err(Error::input("expected one operand of `LuDecomposition`"));
    };
    let matrix = operand.as_array();
    let Some((matrix, [batch @ .., rows, columns])) = matrix.map(|a| (a, &a.dims[..])) else {
        return Err(Error::input(format!(
            "the operand of `LuDecomposition` is a matrix or a batch of them, not {operand:#}"
        )));
    };
    let steps = match (rows, columns) {
        (Dim::Static(rows), Dim::Static(columns)) => Dim::Static(*rows.min(columns)),
        (rows, columns) if rows == columns => rows.clone(),
        (rows, columns) => Dim::Symbolic(Term::min(&rows.term(), &columns.term())),
    };
    let integers = |last: &Dim| {
        let dims = batch.iter().chain([last]).cloned().collect();
        Shape::Array(ArrayShape {
            dims,
            ..ArrayShape::new(ElementType::S32, &[])
        })
    };
    let factors = Shape::Array(matrix.clone());
    let expected = Shape::Tuple(vec![factors, integers(&steps), integers(rows)]);
    match instruction.shape.may_equal(&expected) {
        true => Ok(()),
        false => Err(Error::input(format!(
            "`LuDecomposition` gives {expected:#}, not {:#}",
            instruction.shape
        ))),
    }
}

/// Checks that `callee` compares pairs of scalars of these types.
fn check_comparator(
    module: &Module,
    callee: ComputationId,
    types: &[ElementType],
) -> Result<(), Error> {
    let scalars: Vec<Shape> = types
        .iter()
        .flat_map(|&ty| [scalar(ty), scalar(ty)])
        .collect();
    let parameters: Vec<&Shape> = scalars.iter().collect();
    let signature = signature(module, callee);
    signature.expect_parameters(&parameters)?;
    signature.expect_result(&scalar(ElementType::Pred))
}

fn check_branches(
    module: &Module,
    instruction: &Instruction,
    branches: &[ComputationId],
    predicated: bool,
    operands: &[&Shape],
) -> Result<(), Error> {
    let Some((selector, arguments)) = operands.split_first() else {
        return Err(Error::input("a conditional needs a selector"));
    };
    let by_predicate = selector.may_equal(&scalar(ElementType::Pred));
    let by_index = selector.may_equal(&scalar(ElementType::S32));
    let fits = match (by_predicate, by_index) {
        (true, _) => branches.len() == 2,
        (_, true) => !predicated,
        _ => false,
    };
    if !fits {
        return Err(Error::input(format!(
            "{} branches cannot be selected by {selector:#}: expected a pred[] for two branches, or an s32[] for any number",
            branches.len()
        )));
    }
    for (&branch, &argument) in branches.iter().zip(arguments) {
        let signature = signature(module, branch);
        signature.expect_parameters(&[argument])?;
        signature.expect_result(&instruction.shape)?;
    }
    Ok(())
}
