//! The Plan interpreter, which defines what every backend must compute. It runs kernels with plain
//! loops on the planned buffers, so it also tests whether buffers may be shared as planned.
//!
//! ```
//! use tegula_fusion::{Limits, ShortLoops, flatten, fuse};
//! use tegula_ir::{ArrayShape, ElementType, Literal, PassManager, parse_module};
//!
//! let module = parse_module(
//!     "HloModule twice
//!     ENTRY main { x = s32[3] parameter(0) ROOT y = s32[3] add(x, x) }",
//! )?;
//! tegula_ir::verify(&module)?;
//! let passes = &mut PassManager::new();
//! let program = flatten(&module, ShortLoops::Unrolled, passes)?;
//! let fused = fuse(&module, program, Limits::default(), passes)?;
//! let plan = tegula_plan::plan(&module, &fused, None, passes)?;
//!
//! let shape = ArrayShape::new(ElementType::S32, &[3]);
//! let array = |numbers: [i32; 3]| {
//!     let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
//!     Literal::from_bytes(&shape, &bytes)
//! };
//! let results = tegula_plan_interp::evaluate(&plan, &[array([1, -2, 30])?])?;
//! assert_eq!(results, [array([2, -4, 60])?]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod kernel;

use kernel::{run_kernel, run_strip};
use tegula_custom_call::{CustomCallError, CustomCallHandler, is_built_in};
use tegula_fusion::{Contraction, Kernel, Label, LibraryOp};
use tegula_ir::{ArrayShape, Dim, ElementType, Literal, Op};
use tegula_limits::Stopped;
use tegula_plan::dot::DotView;
use tegula_plan::{
    Cut, KernelId, Part, Place, Plan, Step, ValueId, WrongInput, cuts, module_of, part_of, verify,
};
use tegula_scalar::apply_convert;

/// The reason why a plan could not be evaluated.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum EvaluateError {
    /// The inputs do not match the plan.
    #[error(transparent)]
    Input(#[from] WrongInput),
    /// The sizes of the inputs contradict each other.
    #[error("{0}")]
    Sizes(String),
    /// An index has no value or is out of bounds.
    #[error("an index cannot be evaluated: {0}")]
    Index(String),
    /// An operation is not defined for an element type.
    #[error("{0} is not defined")]
    NoSuchOperation(String),
    /// The plan violates one of its invariants.
    #[error("the plan is malformed: {0}")]
    Malformed(&'static str),
    /// A custom call has no handler, or its handler fails.
    #[error(transparent)]
    CustomCall(#[from] CustomCallError),
    /// A size cannot be allocated.
    #[error("the allocation of {0} bytes exceeds the limit")]
    TooLarge(i64),
    /// A limit of the run was exceeded, or it was interrupted.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// A range of memory: the area, the first byte, and the number of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    area: Area,
    start: i64,
    bytes: i64,
}

#[derive(Clone, Copy, Debug)]
enum Area {
    Parameter(usize),
    Output(usize),
    Constant(usize),
    Arena,
}

/// The memory of one run.
pub(crate) struct Memory<'a> {
    arena: Vec<u8>,
    outputs: Vec<Vec<u8>>,
    parameters: &'a [Literal],
    constants: &'a [Literal],
}

/// The size in bytes of the largest arena: 16 GiB.
const MAX_ARENA: i64 = 1 << 34;

/// Evaluates a plan on flattened inputs; returns flattened results.
///
/// # Errors
/// A wrong number or shape of inputs, or a plan that violates its invariants.
pub fn evaluate(plan: &Plan, inputs: &[Literal]) -> Result<Vec<Literal>, EvaluateError> {
    let shapes: Vec<&ArrayShape> = inputs.iter().map(Literal::shape).collect();
    plan.check_inputs(&shapes)?;
    if !plan.has_open_sizes() {
        return evaluate_static(plan, inputs);
    }
    let sizes = plan.bind(&shapes).map_err(EvaluateError::Sizes)?;
    let plan = plan.at(&sizes).map_err(EvaluateError::Sizes)?;
    verify(&plan).map_err(|_| EvaluateError::Malformed("it fails verification at these sizes"))?;
    evaluate_static(&plan, inputs)
}

fn evaluate_static(plan: &Plan, inputs: &[Literal]) -> Result<Vec<Literal>, EvaluateError> {
    let arena_bytes = plan.arena_bytes.as_constant();
    let arena_bytes =
        arena_bytes.ok_or(EvaluateError::Malformed("the size of its arena is unknown"))?;
    if arena_bytes > MAX_ARENA {
        return Err(EvaluateError::TooLarge(arena_bytes));
    }
    let sizes = plan.results.iter();
    let sizes = sizes.map(|&result| plan.values[result].shape.byte_size().unwrap_or(i64::MAX));
    let bytes = sizes.fold(arena_bytes, i64::saturating_add);
    let _claim = tegula_limits::claim(u64::try_from(bytes).unwrap_or(u64::MAX))?;
    let mut outputs = Vec::with_capacity(plan.results.len());
    for &result in &plan.results {
        let bytes = plan.values[result].shape.byte_size().unwrap_or(i64::MAX);
        if bytes > MAX_ARENA {
            return Err(EvaluateError::TooLarge(bytes));
        }
        outputs.push(vec![0; bytes as usize]);
    }
    for alias in &plan.aliases {
        if let (Some(output), Some(input)) =
            (outputs.get_mut(alias.output), inputs.get(alias.parameter))
            && output.len() == input.bytes().len()
        {
            output.copy_from_slice(input.bytes());
        }
    }
    let memory = Memory {
        // A recognisable pattern, so that reads of unwritten memory are noticed.
        arena: vec![0xA5; usize::try_from(arena_bytes).unwrap_or(0)],
        outputs,
        parameters: inputs,
        constants: &plan.constants,
    };
    let mut evaluator = Evaluator { plan, memory };
    evaluator.steps(&plan.steps)?;
    plan.results
        .iter()
        .map(|&result| evaluator.literal(result))
        .collect()
}

struct Evaluator<'a> {
    plan: &'a Plan,
    memory: Memory<'a>,
}

impl Evaluator<'_> {
    fn steps(&mut self, steps: &[Step]) -> Result<(), EvaluateError> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<(), EvaluateError> {
        tegula_limits::check()?;
        match step {
            Step::Kernel { kernel, args } => self.kernel(*kernel, args),
            Step::Library {
                op,
                operands,
                results,
            } => self.library(op, operands, results),
            Step::Copy { from, to } if self.plan.same_place(*from, *to) => Ok(()),
            Step::Copy { from, to } => {
                let literal = self.literal(*from)?;
                self.store(*to, literal.bytes())
            }
            Step::While {
                condition,
                predicate,
                body,
            } => loop {
                tegula_limits::check()?;
                self.steps(condition)?;
                if self.read_scalar(*predicate)? == 0 {
                    return Ok(());
                }
                self.steps(body)?;
            },
            Step::Conditional { selector, branches } => {
                let selected = self.read_scalar(*selector)?;
                let last = branches.len().saturating_sub(1);
                let branch = match self.plan.values[*selector].shape.element_type {
                    ElementType::Pred => usize::from(selected == 0),
                    _ => usize::try_from(selected).map_or(last, |b| b.min(last)),
                };
                match branches.get(branch) {
                    Some(steps) => self.steps(steps),
                    None => Err(EvaluateError::Malformed("a conditional has no branches")),
                }
            }
            Step::Strips { count, steps } => self.strips(*count, steps),
        }
    }

    /// Runs steps strip by strip. What one strip writes must not affect the others.
    fn strips(&mut self, count: i64, steps: &[Step]) -> Result<(), EvaluateError> {
        let cuts = cuts(self.plan, count, steps);
        let cuts = cuts.ok_or(EvaluateError::Malformed(
            "the steps of a strip loop cannot be divided into strips",
        ))?;
        for strip in 0..count {
            for (step, cut) in steps.iter().zip(&cuts) {
                self.strip(step, cut, (count, strip))?;
            }
        }
        Ok(())
    }

    fn strip(
        &mut self,
        step: &Step,
        cut: &Cut,
        (count, strip): (i64, i64),
    ) -> Result<(), EvaluateError> {
        match step {
            Step::Kernel { kernel, args } => {
                let spans: Result<Vec<Span>, _> = args.iter().map(|&v| self.span(v)).collect();
                let kernel = &self.plan.kernels[*kernel];
                run_strip(kernel, &spans?, (count, strip), &mut self.memory)
            }
            Step::Library {
                op: LibraryOp::Dot(contraction),
                operands,
                results,
            } => {
                let counts = cut.counts(count).unwrap_or_default();
                let mut rest = strip;
                let mut along: Vec<Along> = Vec::new();
                for (&label, &count) in cut.labels.iter().zip(&counts).rev() {
                    along.insert(0, (label, [count as usize, (rest % count) as usize]));
                    rest /= count;
                }
                let dot = self.dot(contraction, operands, results, &along)?;
                self.store(results[0], dot.bytes())
            }
            Step::Library {
                op: LibraryOp::Operation(op),
                operands,
                results,
            } => self.shares(op, (operands, results), cut, (count, strip)),
            _ => Err(EvaluateError::Malformed(
                "a strip loop contains control flow",
            )),
        }
    }

    fn kernel(&mut self, id: KernelId, args: &[ValueId]) -> Result<(), EvaluateError> {
        let spans: Result<Vec<Span>, _> = args.iter().map(|&v| self.span(v)).collect();
        run_kernel(&self.plan.kernels[id], &spans?, &mut self.memory)
    }

    /// Runs an operation on a strip's parts of arrays; arrays that are not divided are whole.
    fn shares(
        &mut self,
        op: &Op,
        (operands, results): (&[ValueId], &[ValueId]),
        cut: &Cut,
        (count, strip): (i64, i64),
    ) -> Result<(), EvaluateError> {
        let mut arrays = Vec::new();
        for (&value, part) in operands.iter().chain(results).zip(&cut.parts) {
            let (mut shape, mut span) = (self.plan.values[value].shape.clone(), self.span(value)?);
            if *part == Part::Share {
                let bytes = part_of(span.bytes, count, strip);
                (span.start, span.bytes) = (span.start + bytes.start, bytes.end - bytes.start);
                let outermost = shape.dims.iter_mut().find(|dim| dim.as_static() != Some(1));
                if let Some(Dim::Static(size)) = outermost {
                    *size /= count;
                }
            }
            arrays.push((shape, span));
        }
        let (given, wanted) = arrays.split_at(operands.len());
        let mut inputs = Vec::with_capacity(given.len());
        for (shape, span) in given {
            let bytes = self.memory.bytes(*span, 0, span.bytes)?;
            let input = Literal::from_bytes(shape, bytes);
            inputs.push(input.map_err(|_| EvaluateError::TooLarge(span.bytes))?);
        }
        let shapes: Vec<&ArrayShape> = wanted.iter().map(|(shape, _)| shape).collect();
        let outputs = operation(op, &inputs, &shapes)?;
        for ((_, span), output) in wanted.iter().zip(&outputs) {
            let target = self.memory.bytes_mut(*span, 0, span.bytes)?;
            target.copy_from_slice(output.bytes());
        }
        Ok(())
    }

    /// The contents of the result's memory after a dot, or after a strip of it.
    fn dot(
        &self,
        contraction: &Contraction,
        operands: &[ValueId],
        results: &[ValueId],
        strip: &[Along],
    ) -> Result<Literal, EvaluateError> {
        let inputs: Result<Vec<Literal>, _> = operands.iter().map(|&v| self.literal(v)).collect();
        let inputs = inputs?;
        let ([lhs, rhs, added @ ..], &[result]) = (&inputs[..], results) else {
            let message = "a dot must have two or three operands and one result";
            return Err(EvaluateError::Malformed(message));
        };
        let mut result = self.literal(result)?;
        dot([lhs, rhs], added.first(), contraction, strip, &mut result)?;
        Ok(result)
    }

    fn span(&self, value: ValueId) -> Result<Span, EvaluateError> {
        let plan = self.plan;
        let value = &plan.values[value];
        let missing = EvaluateError::Malformed("a size or an offset is unknown");
        let bytes = value.shape.byte_size().ok_or(missing.clone())?;
        let (area, start) = match &plan.buffers[value.buffer].place {
            Place::Parameter(i) => (Area::Parameter(*i), 0),
            Place::Output { result, from } => (Area::Output(*result), *from),
            Place::Constant(i) => (Area::Constant(*i), 0),
            Place::Arena(offset) => (Area::Arena, offset.as_constant().ok_or(missing)?),
        };
        Ok(Span { area, start, bytes })
    }

    fn literal(&self, value: ValueId) -> Result<Literal, EvaluateError> {
        let span = self.span(value)?;
        let bytes = self.memory.bytes(span, 0, span.bytes)?;
        Literal::from_bytes(&self.plan.values[value].shape, bytes)
            .map_err(|_| EvaluateError::TooLarge(span.bytes))
    }

    fn store(&mut self, value: ValueId, bytes: &[u8]) -> Result<(), EvaluateError> {
        let span = self.span(value)?;
        let target = self.memory.bytes_mut(span, 0, span.bytes)?;
        if target.len() != bytes.len() {
            return Err(EvaluateError::Malformed(
                "the source and the destination of a copy differ in size",
            ));
        }
        target.copy_from_slice(bytes);
        Ok(())
    }

    /// The value of a pred or s32 scalar.
    fn read_scalar(&self, value: ValueId) -> Result<i32, EvaluateError> {
        let literal = self.literal(value)?;
        match *literal.bytes() {
            [pred] => Ok(i32::from(pred)),
            [a, b, c, d] => Ok(i32::from_ne_bytes([a, b, c, d])),
            _ => Err(EvaluateError::Malformed(
                "a selector is neither a pred nor an s32 scalar",
            )),
        }
    }

    fn library(
        &mut self,
        op: &LibraryOp,
        operands: &[ValueId],
        results: &[ValueId],
    ) -> Result<(), EvaluateError> {
        let inputs: Result<Vec<Literal>, _> = operands.iter().map(|&v| self.literal(v)).collect();
        let inputs = inputs?;
        let outputs = match op {
            LibraryOp::Dot(dims) => vec![self.dot(dims, operands, results, &[])?],
            LibraryOp::Sort {
                dimension,
                comparator,
            } => sort(&inputs, *dimension, comparator)?,
            LibraryOp::Operation(op) => {
                let shapes: Vec<&ArrayShape> = results
                    .iter()
                    .map(|&v| &self.plan.values[v].shape)
                    .collect();
                operation(op, &inputs, &shapes)?
            }
        };
        for (&result, output) in results.iter().zip(&outputs) {
            self.store(result, output.bytes())?;
        }
        Ok(())
    }
}

impl Memory<'_> {
    fn bytes(&self, span: Span, offset: i64, size: i64) -> Result<&[u8], EvaluateError> {
        let area: &[u8] = match span.area {
            Area::Parameter(i) => self.parameters.get(i).map_or(&[], Literal::bytes),
            Area::Constant(i) => self.constants.get(i).map_or(&[], Literal::bytes),
            Area::Output(i) => self.outputs.get(i).map_or(&[], Vec::as_slice),
            Area::Arena => &self.arena,
        };
        area.get(range(span, offset, size)?).ok_or(OUTSIDE)
    }

    fn bytes_mut(
        &mut self,
        span: Span,
        offset: i64,
        size: i64,
    ) -> Result<&mut [u8], EvaluateError> {
        let range = range(span, offset, size)?;
        let area: &mut [u8] = match span.area {
            Area::Output(i) => self.outputs.get_mut(i).map_or(&mut [], Vec::as_mut_slice),
            Area::Arena => &mut self.arena,
            Area::Parameter(_) | Area::Constant(_) => {
                return Err(EvaluateError::Malformed(
                    "a step writes to a parameter or a constant",
                ));
            }
        };
        area.get_mut(range).ok_or(OUTSIDE)
    }

    /// The element of `size` bytes at `offset`, zero-extended.
    pub(crate) fn read(&self, span: Span, offset: i64, size: usize) -> Result<u128, EvaluateError> {
        let mut bits = [0u8; 16];
        let bytes = self.bytes(span, offset, size as i64)?;
        bits.get_mut(..size).ok_or(OUTSIDE)?.copy_from_slice(bytes);
        Ok(u128::from_le_bytes(bits))
    }

    pub(crate) fn write(
        &mut self,
        span: Span,
        offset: i64,
        size: usize,
        bits: u128,
    ) -> Result<(), EvaluateError> {
        let bits = bits.to_le_bytes();
        let target = self.bytes_mut(span, offset, size as i64)?;
        target.copy_from_slice(bits.get(..size).ok_or(OUTSIDE)?);
        Ok(())
    }
}

const OUTSIDE: EvaluateError = EvaluateError::Malformed("an access is out of bounds of its buffer");

fn range(span: Span, offset: i64, size: i64) -> Result<std::ops::Range<usize>, EvaluateError> {
    if offset < 0 || size < 0 || offset + size > span.bytes {
        return Err(OUTSIDE);
    }
    let start = usize::try_from(span.start + offset).map_err(|_| OUTSIDE)?;
    Ok(start..start + size as usize)
}

/// Evaluates an operation with the reference evaluator, as a module of this operation only.
fn operation(
    op: &Op,
    inputs: &[Literal],
    results: &[&ArrayShape],
) -> Result<Vec<Literal>, EvaluateError> {
    if let Op::CustomCall(call) = op
        && !is_built_in(&call.target)
    {
        let results: Vec<ArrayShape> = results.iter().map(|&shape| shape.clone()).collect();
        return Ok(CustomCallHandler::of(call)?.run(call, inputs, &results)?);
    }
    let failed = |e: String| EvaluateError::NoSuchOperation(format!("{}: {e}", op.opcode()));
    let operands: Vec<&ArrayShape> = inputs.iter().map(Literal::shape).collect();
    let module = module_of(op, &operands, results).map_err(|e| failed(e.to_string()))?;
    let arguments: Vec<_> = inputs
        .iter()
        .cloned()
        .map(tegula_interp::Value::Array)
        .collect();
    let value = tegula_interp::evaluate(&module, &arguments);
    let value = value.map_err(|e| failed(e.to_string()))?;
    Ok(value.leaves().into_iter().cloned().collect())
}

/// A dimension that is divided into equal parts: the number of parts, and the number of the part.
type Along = (Label, [usize; 2]);

/// Computes a dot by its definition, optionally added to an array: integers modulo their width,
/// floats in f64. For a strip, only its elements are written.
fn dot(
    [lhs, rhs]: [&Literal; 2],
    added: Option<&Literal>,
    contraction: &Contraction,
    strip: &[Along],
    result: &mut Literal,
) -> Result<(), EvaluateError> {
    let malformed =
        || EvaluateError::Malformed("the labels of a dot do not fit the operands and the result");
    let shapes = [lhs.shape(), rhs.shape()];
    let whole = DotView::new(shapes[0], shapes[1], contraction).ok_or_else(malformed)?;
    let fits = whole.elements() == Some(result.len());
    if !fits || added.is_some_and(|added| added.len() != result.len()) {
        return Err(malformed());
    }
    let cut: Vec<(Label, usize)> = strip.iter().map(|&(l, [count, _])| (l, count)).collect();
    let cut = DotView::strip(shapes[0], shapes[1], contraction, &cut);
    let (view, distances) = cut.ok_or_else(malformed)?;
    let mut starts = [0; 3];
    for (&(_, [_, number]), distances) in strip.iter().zip(&distances) {
        for (start, distance) in starts.iter_mut().zip(distances) {
            *start += number * distance;
        }
    }
    let ty = result.element_type();
    let wide = match ty.is_float() {
        true => ElementType::F64,
        false => ElementType::S64,
    };
    let (a, b) = (converted(lhs, wide), converted(rhs, wide));
    let added = added.map(|added| converted(added, wide));
    // The offsets of the summands, relative to the row and the column.
    let mut terms = Vec::new();
    view.for_each_contracted(|i, j| terms.push((i, j)));
    let size = ty.storage_bytes();
    let bytes = result.bytes_mut();
    view.for_each(|left, right, out| {
        let [left, right, out] = [left + starts[0], right + starts[1], out + starts[2]];
        let first = added.as_ref().map_or(0, |added| added[out]);
        let pairs = terms.iter().map(|&(i, j)| (a[left + i], b[right + j]));
        let sum = match wide {
            ElementType::F64 => pairs
                .fold(f64::from_bits(first), |sum, (a, b)| {
                    sum + f64::from_bits(a) * f64::from_bits(b)
                })
                .to_bits(),
            _ => pairs.fold(first, |sum, (a, b)| sum.wrapping_add(a.wrapping_mul(b))),
        };
        let bits = apply_convert(wide, ty, u128::from(sum));
        bytes[out * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
    });
    Ok(())
}

/// The bits of all elements, converted to a 64-bit type.
fn converted(literal: &Literal, wide: ElementType) -> Vec<u64> {
    let ty = literal.element_type();
    let elements = literal.bytes().chunks_exact(ty.storage_bytes().max(1));
    let widened = elements.map(|bytes| {
        let mut bits = [0u8; 16];
        bits[..bytes.len()].copy_from_slice(bytes);
        apply_convert(ty, wide, u128::from_le_bytes(bits)) as u64
    });
    widened.collect()
}

/// Sorts all operands together. The sort is always stable, whether or not the program requires it.
fn sort(
    inputs: &[Literal],
    dimension: usize,
    comparator: &Kernel,
) -> Result<Vec<Literal>, EvaluateError> {
    let malformed =
        EvaluateError::Malformed("the operands of a sort do not fit its dimension or comparator");
    let Some(first) = inputs.first() else {
        return Err(malformed);
    };
    let dims = first.shape().static_dims().ok_or(malformed.clone())?;
    let length = usize::try_from(*dims.get(dimension).ok_or(malformed.clone())?).unwrap_or(0);
    let inner: usize = dims[dimension + 1..].iter().map(|&d| d as usize).product();
    let mut outputs = inputs.to_vec();
    if first.is_empty() {
        return Ok(outputs);
    }
    for row in 0..first.len() / length {
        let base = row / inner * inner * length + row % inner;
        let mut order: Vec<usize> = (0..length).map(|i| base + i * inner).collect();
        let mut failure = None;
        tegula_plan::sort::merge_sort(&mut order, &mut |&a, &b| {
            comes_before(inputs, comparator, a, b).unwrap_or_else(|e| {
                failure = Some(e);
                false
            })
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        for (input, output) in inputs.iter().zip(&mut outputs) {
            let size = input.element_type().storage_bytes();
            let (from, to) = (input.bytes(), output.bytes_mut());
            for (i, &source) in order.iter().enumerate() {
                let target = (base + i * inner) * size;
                to[target..target + size].copy_from_slice(&from[source * size..][..size]);
            }
        }
    }
    Ok(outputs)
}

fn comes_before(
    inputs: &[Literal],
    comparator: &Kernel,
    a: usize,
    b: usize,
) -> Result<bool, EvaluateError> {
    // The comparator's parameters are the elements, and the pred that it writes.
    let mut arena = Vec::new();
    let mut args = Vec::new();
    for input in inputs {
        let size = input.element_type().storage_bytes();
        for at in [a, b] {
            args.push(Span {
                area: Area::Arena,
                start: arena.len() as i64,
                bytes: size as i64,
            });
            arena.extend_from_slice(&input.bytes()[at * size..][..size]);
        }
    }
    args.push(Span {
        area: Area::Arena,
        start: arena.len() as i64,
        bytes: 1,
    });
    arena.push(0);
    let mut memory = Memory {
        arena,
        outputs: Vec::new(),
        parameters: &[],
        constants: &[],
    };
    run_kernel(comparator, &args, &mut memory)?;
    Ok(memory.arena.last() == Some(&1))
}
