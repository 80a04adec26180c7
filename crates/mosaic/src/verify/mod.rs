//! The verifier of kernels: operands and results of every operation have valid types, regions end
//! with the right terminator, windows fit the arguments.
//!
//! - `values`: operations that compute values; `memory`: operations on memory.

mod memory;
mod values;

use crate::ir::{Block, CopyOperands, Kernel, Module, Op, Operation, Unary, Value};
use crate::types::{Element, Type};
use memory::memory;
use tegula_stablehlo::Error;
use values::{cast_fits, constant_fits, shapes};

/// Checks a module.
///
/// # Errors
/// The first operation that is wrong, with its place.
pub fn verify(module: &Module) -> Result<(), Error> {
    let checker = Checker { module };
    for function in &module.functions {
        checker.body(&function.body, End::Function)?;
    }
    checker.body(&module.kernel.function.body, End::Function)?;
    checker.kernel(&module.kernel).map_err(|why| {
        Error::input(format!(
            "the kernel `{}`: {why}",
            module.kernel.function.name
        ))
    })
}

type Checked = Result<(), String>;

/// The terminator that a region must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Function,
    Yield,
    Condition,
    /// A region that may be empty.
    Branch,
}

struct Checker<'m> {
    module: &'m Module,
}

fn need(holds: bool, why: &str) -> Checked {
    if holds { Ok(()) } else { Err(why.to_owned()) }
}

impl<'m> Checker<'m> {
    fn ty(&self, value: Value) -> &'m Type {
        &self.module.values[value]
    }

    fn kernel(&self, kernel: &Kernel) -> Checked {
        let arguments = &kernel.function.body.arguments;
        let rank = kernel.grid.len();
        need(
            kernel.semantics.is_empty() || kernel.semantics.len() == rank,
            "`dimension_semantics` and `iteration_bounds` differ in length",
        )?;
        need(
            kernel
                .grid
                .iter()
                .all(|size| size.is_none_or(|size| size >= 0)),
            "a dimension of the grid is negative",
        )?;
        let fixed = rank + kernel.scalar_prefetch + kernel.scratch;
        need(
            fixed <= arguments.len(),
            "its arguments must include all indices, scalars and scratch memory",
        )?;
        for &index in &arguments[..rank] {
            need(
                *self.ty(index) == Type::Scalar(Element::I32),
                "an index of the grid is not an `i32`",
            )?;
        }
        for &argument in &arguments[rank..] {
            need(
                self.ty(argument).as_memref().is_some(),
                "an argument after the grid's indices is not a memory reference",
            )?;
        }
        let count = arguments.len() - fixed;
        need(
            kernel.windows.is_empty() || kernel.windows.len() == count,
            "expected one window description for each windowed argument",
        )?;
        let first = rank + kernel.scalar_prefetch;
        for (window, &argument) in kernel.windows.iter().zip(&arguments[first..]) {
            self.window(kernel, window, argument)?;
        }
        Ok(())
    }

    fn window(&self, kernel: &Kernel, window: &crate::ir::Window, argument: Value) -> Checked {
        let Some(name) = &window.transform else {
            return Ok(());
        };
        let function = self.module.function(name);
        let function = function.ok_or_else(|| format!("function `{name}` does not exist"))?;
        let takes = kernel.grid.len() + kernel.scalar_prefetch;
        let given = &kernel.function.body.arguments[..takes];
        let matches = function.body.arguments.len() == takes
            && function
                .body
                .arguments
                .iter()
                .zip(given)
                .all(|(a, b)| self.ty(*a) == self.ty(*b));
        need(
            matches,
            "a window's function must take the grid's indices and scalars",
        )?;
        let memref = self.ty(argument).as_memref();
        let rank = memref.map_or(0, |memref| memref.dims.len());
        let gives = function
            .body
            .operations
            .last()
            .map_or(0, |end| end.operands.len());
        need(
            window.bounds.len() == gives && rank <= gives,
            "a window's function must return one index for each dimension of the window",
        )?;
        need(
            window.bounds.iter().all(|size| *size > 0),
            "a window is empty",
        )?;
        if let Some((low, high)) = &window.elements {
            need(
                low.len() == gives && high.len() == gives,
                "a window's padding must have the window's number of dimensions",
            )?;
        }
        Ok(())
    }

    fn body(&self, block: &Block, end: End) -> Result<(), Error> {
        let last = block.operations.len().saturating_sub(1);
        for (at, operation) in block.operations.iter().enumerate() {
            let is_end = matches!(operation.op, Op::Yield | Op::Condition | Op::Return);
            let checked = match is_end {
                true if at != last => Err("it ends a region before its last operation".to_owned()),
                _ => self.operation(operation),
            };
            checked.map_err(|why| located(operation, &why))?;
            self.regions(operation)?;
        }
        let ends = block.operations.last().map(|operation| &operation.op);
        let good = match end {
            End::Function => ends == Some(&Op::Return),
            End::Yield => ends == Some(&Op::Yield),
            End::Condition => ends == Some(&Op::Condition),
            End::Branch => block.operations.is_empty() || ends == Some(&Op::Yield),
        };
        match good {
            true => Ok(()),
            false => Err(Error::input("a region ends with the wrong terminator")),
        }
    }

    fn regions(&self, operation: &Operation) -> Result<(), Error> {
        let ends: &[End] = match operation.op {
            Op::If => &[End::Branch, End::Branch],
            Op::For => &[End::Yield],
            Op::Region => &[End::Branch],
            Op::While => &[End::Condition, End::Yield],
            _ => &[],
        };
        let count = operation.regions.len();
        if count != ends.len() && !(operation.op == Op::If && count == 1) {
            return Err(located(operation, &format!("{count} regions")));
        }
        for (region, end) in operation.regions.iter().zip(ends) {
            self.body(region, *end)?;
        }
        self.carried(operation)
            .map_err(|why| located(operation, &why))
    }

    /// Checks that the values passed into and out of regions have the same types.
    fn carried(&self, operation: &Operation) -> Checked {
        let same = |a: &[Value], b: &[Value]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.ty(*a) == self.ty(*b))
        };
        let ended = |region: usize| -> &[Value] {
            let block = operation.regions.get(region);
            let last = block.and_then(|block| block.operations.last());
            last.map_or(&[], |end| &end.operands)
        };
        let arguments = |region: usize| -> &[Value] {
            let block = operation.regions.get(region);
            block.map_or(&[], |block| &block.arguments)
        };
        let (operands, results) = (&operation.operands, &operation.results);
        let good = match operation.op {
            Op::If => {
                let of = |region| arguments(region).is_empty() && same(ended(region), results);
                of(0) && (operation.regions.len() == 1 && results.is_empty() || of(1))
            }
            Op::Region => arguments(0).is_empty() && same(ended(0), results),
            Op::For => {
                let carries = operands.get(3..).unwrap_or_default();
                let takes = arguments(0).get(1..).unwrap_or_default();
                operands.len() >= 3
                    && same(carries, results)
                    && same(takes, results)
                    && same(ended(0), results)
                    && same(&arguments(0)[..1.min(arguments(0).len())], &operands[..1])
            }
            Op::While => {
                let passes = ended(0).get(1..).unwrap_or_default();
                same(operands, arguments(0))
                    && same(passes, results)
                    && same(passes, arguments(1))
                    && same(ended(1), operands)
            }
            _ => return Ok(()),
        };
        need(
            good,
            "the parameters and results of its regions do not match its operands and results",
        )
    }

    fn operation(&self, operation: &Operation) -> Checked {
        let operands: Vec<&Type> = operation.operands.iter().map(|v| self.ty(*v)).collect();
        let results: Vec<&Type> = operation.results.iter().map(|v| self.ty(*v)).collect();
        let (takes, gives) = counts(&operation.op);
        need(
            takes.is_none_or(|takes| takes == operands.len()),
            &format!(
                "it has {} operands, expected {}",
                operands.len(),
                takes.unwrap_or(0)
            ),
        )?;
        need(
            gives.is_none_or(|gives| gives == results.len()),
            &format!(
                "it has {} results, expected {}",
                results.len(),
                gives.unwrap_or(0)
            ),
        )?;
        if let Some(done) = self.elementwise(&operation.op, &operands, &results) {
            return done;
        }
        if let Some(done) = shapes(&operation.op, &operands, &results) {
            return done;
        }
        memory(&operation.op, &operands, &results)
    }

    fn elementwise(&self, op: &Op, operands: &[&Type], results: &[&Type]) -> Option<Checked> {
        Some(match op {
            Op::Constant(constant) => constant_fits(constant, results[0]),
            Op::Unary(unary) => {
                let truth = matches!(
                    unary,
                    Unary::IsFinite | Unary::IsInfinite | Unary::IsNan | Unary::IsNotFinite
                );
                let ints = [
                    Unary::AbsInt,
                    Unary::CountLeadingZeros,
                    Unary::PopulationCount,
                ];
                let good = operands[0].dims() == results[0].dims()
                    && operands[0]
                        .element()
                        .is_some_and(|e| e.is_float() != ints.contains(unary))
                    && match truth {
                        true => results[0].element() == Some(Element::BOOL),
                        false => operands[0] == results[0],
                    };
                need(good, "its result must have the type of its operand")
            }
            Op::Binary(_) | Op::MultiplyAdd => need(
                operands.iter().all(|ty| *ty == results[0]) && results[0].element().is_some(),
                "its operands and its result differ in type",
            ),
            Op::CompareInt(_) | Op::CompareFloat(_) => need(
                operands[0] == operands[1]
                    && operands[0]
                        .element()
                        .is_some_and(|e| e.is_float() == matches!(op, Op::CompareFloat(_)))
                    && operands[0].dims() == results[0].dims()
                    && results[0].element() == Some(Element::BOOL),
                "it compares values of types that cannot be compared",
            ),
            Op::Select => need(
                operands[1] == operands[2]
                    && operands[1] == results[0]
                    && operands[0].element() == Some(Element::BOOL)
                    && (operands[0].dims() == results[0].dims()
                        || operands[0].as_scalar().is_some()),
                "it selects between values of different types",
            ),
            Op::Cast(cast) => {
                let (from, to) = (operands[0].element(), results[0].element());
                let good = from
                    .zip(to)
                    .is_some_and(|(from, to)| cast_fits(*cast, from, to));
                need(
                    good && operands[0].dims() == results[0].dims(),
                    "it does not convert between these types",
                )
            }
            Op::StochasticConvert => {
                let narrow = results[0].element();
                need(
                    operands[0].element() == Some(Element::F32)
                        && operands[1].element() == Some(Element::I32)
                        && narrow.is_some_and(|to| to.is_float() && to.bits() < 32)
                        && operands[0].dims() == operands[1].dims()
                        && operands[0].dims() == results[0].dims(),
                    "it rounds elements of f32 by random words of 32 bits to a narrower type",
                )
            }
            Op::AssumeMultiple(multiple) => need(
                operands[0] == results[0] && *multiple > 0 && operands[0].as_scalar().is_some(),
                "its assumption is invalid",
            ),
            _ => return None,
        })
    }
}

fn located(operation: &Operation, why: &str) -> Error {
    let message = format!("`{}`: {why}", operation.name);
    Error::input(match &operation.place {
        Some(place) => format!("{}:{}: {message}", place.file, place.line),
        None => message,
    })
}

/// The numbers of operands and results, where they are fixed.
fn counts(op: &Op) -> (Option<usize>, Option<usize>) {
    let (takes, gives) = match op {
        Op::Constant(_)
        | Op::Iota(_)
        | Op::Alloc
        | Op::BarrierSemaphore
        | Op::DeviceId
        | Op::CoreId
        | Op::GridBound(_)
        | Op::RandomBits => (0, 1),
        Op::Unary(_)
        | Op::Cast(_)
        | Op::AssumeMultiple(_)
        | Op::Broadcast
        | Op::Reshape
        | Op::ReduceIndex(..)
        | Op::Transpose(_)
        | Op::Slice(..)
        | Op::Extract(_)
        | Op::Repeat(..)
        | Op::BitcastVector
        | Op::UnpackElementwise(..)
        | Op::ReadSemaphore
        | Op::MemRefSqueeze
        | Op::MemRefReshape
        | Op::MemRefBitcast
        | Op::MemRefCast => (1, 1),
        Op::Binary(_)
        | Op::CompareInt(_)
        | Op::CompareFloat(_)
        | Op::Reduce(..)
        | Op::StochasticConvert
        | Op::Rotate(..)
        | Op::Gather(_) => (2, 1),
        Op::Select | Op::MultiplyAdd | Op::Matmul(..) => (3, 1),
        Op::Wait => (2, 0),
        Op::Delay => (1, 0),
        Op::Signal { device, core } => (2 + usize::from(*device) + usize::from(*core), 0),
        Op::EnqueueDma(groups) | Op::WaitDma(groups, _) => (copy_operands(groups), 0),
        Op::If => return (Some(1), None),
        Op::Region => return (Some(0), None),
        Op::Concatenate(_)
        | Op::PackElementwise(_)
        | Op::Load { .. }
        | Op::LoadScalar
        | Op::MemRefSlice => return (None, Some(1)),
        Op::Store { .. } | Op::StoreScalar | Op::SeedRandom => return (None, Some(0)),
        Op::Assert(_) => (1, 0),
        Op::Print { .. } => return (None, Some(0)),
        Op::Trace => return (None, None),
        Op::For | Op::While => return (None, None),
        Op::Yield | Op::Condition | Op::Return => return (None, Some(0)),
    };
    (Some(takes), Some(gives))
}

fn copy_operands(groups: &CopyOperands) -> usize {
    let CopyOperands {
        source_semaphore,
        target_semaphore,
        device,
        core,
    } = *groups;
    let optional = [source_semaphore, target_semaphore, device, core];
    2 + optional.into_iter().filter(|there| *there).count()
}
