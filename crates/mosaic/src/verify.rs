//! What must hold of a kernel: operands and results of every operation have the types that it
//! takes and gives, regions end as they must, windows fit the arguments.

use crate::ir::{
    Block, Cast, Constant, CopyOperands, DotDims, Kernel, Module, Op, Operation, Reduction, Unary,
    Value,
};
use crate::types::{Element, Item, MemRefType, MemorySpace, Type};
use tegula_stablehlo::Error;

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

/// What a region must end with.
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
            "it has fewer arguments than indices, scalars and scratch memory",
        )?;
        for &index in &arguments[..rank] {
            need(
                *self.ty(index) == Type::Scalar(Element::I32),
                "an index of the grid is no `i32`",
            )?;
        }
        for &argument in &arguments[rank..] {
            need(
                self.ty(argument).as_memref().is_some(),
                "an argument after the grid's indices is no memory",
            )?;
        }
        let count = arguments.len() - fixed;
        need(
            kernel.windows.is_empty() || kernel.windows.len() == count,
            "as many windows are described as it has arguments that are windows",
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
        let function = function.ok_or_else(|| format!("there is no function `{name}`"))?;
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
            "a window's function takes something else than indices and scalars",
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
            "a window's function gives another number of indices than the window has dimensions",
        )?;
        need(
            window.bounds.iter().all(|size| *size > 0),
            "a window is empty",
        )?;
        if let Some((low, high)) = &window.elements {
            need(
                low.len() == gives && high.len() == gives,
                "a window's padding has another number of dimensions",
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
            false => Err(Error::input("a region does not end as it must")),
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

    /// What goes into and comes out of regions has the same types.
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
            "what its regions take and give differs from its operands or results",
        )
    }

    fn operation(&self, operation: &Operation) -> Checked {
        let operands: Vec<&Type> = operation.operands.iter().map(|v| self.ty(*v)).collect();
        let results: Vec<&Type> = operation.results.iter().map(|v| self.ty(*v)).collect();
        let (takes, gives) = counts(&operation.op);
        need(
            takes.is_none_or(|takes| takes == operands.len()),
            &format!(
                "{} operands, and it takes {}",
                operands.len(),
                takes.unwrap_or(0)
            ),
        )?;
        need(
            gives.is_none_or(|gives| gives == results.len()),
            &format!(
                "{} results, and it gives {}",
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
                let truth = matches!(unary, Unary::IsFinite | Unary::IsInfinite | Unary::IsNan);
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
                need(good, "its result has another type than its operand")
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
                "it compares what cannot be compared",
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
            Op::AssumeMultiple(multiple) => need(
                operands[0] == results[0] && *multiple > 0 && operands[0].as_scalar().is_some(),
                "what is assumed of it makes no sense",
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

/// How many operands and results there are, where it is always the same.
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

fn constant_fits(constant: &Constant, ty: &Type) -> Checked {
    let good = match (constant, ty) {
        (_, Type::MemRef(_)) => false,
        (Constant::Splat(_), _) => true,
        (Constant::Elements(elements), ty) => {
            elements.len() as i64 == ty.dims().iter().product::<i64>()
        }
    };
    need(good, "its value does not fit its type")
}

fn cast_fits(cast: Cast, from: Element, to: Element) -> bool {
    let int = |element: Element| !element.is_float();
    match cast {
        Cast::Signed | Cast::Unsigned | Cast::Truncate => int(from) && int(to),
        Cast::Float => from.is_float() && to.is_float(),
        Cast::FromSigned | Cast::FromUnsigned => int(from) && to.is_float(),
        Cast::ToSigned | Cast::ToUnsigned | Cast::ToSignedNearest => from.is_float() && int(to),
        Cast::Bits => from.bits() == to.bits(),
        Cast::Mask => from == Element::BOOL && to == Element::BOOL,
    }
}

fn count(dims: &[i64]) -> i64 {
    dims.iter().product()
}

/// Whether `dims` names different dimensions of `rank`.
fn distinct(dims: &[i64], rank: usize) -> bool {
    let inside = dims.iter().all(|&d| (0..rank as i64).contains(&d));
    inside && dims.iter().enumerate().all(|(i, d)| !dims[..i].contains(d))
}

fn shapes(op: &Op, operands: &[&Type], results: &[&Type]) -> Option<Checked> {
    let result = results.first().copied();
    let first = operands.first().copied();
    let same_element = || first.and_then(Type::element) == result.and_then(Type::element);
    let (from, to) = (
        first.map(Type::dims).unwrap_or_default(),
        result.map(Type::dims).unwrap_or_default(),
    );
    let inside = |dim: i64| (0..from.len() as i64).contains(&dim);
    Some(match op {
        Op::Broadcast => {
            let shift = to.len().checked_sub(from.len());
            let good = shift.is_some_and(|shift| {
                from.iter()
                    .zip(&to[shift..])
                    .all(|(f, t)| f == t || *f == 1)
            });
            need(
                good && same_element(),
                "its operand does not broadcast to its result",
            )
        }
        Op::Reshape => need(
            count(from) == count(to) && same_element(),
            "its result has another number of elements",
        ),
        Op::Iota(dims) => need(
            distinct(dims, to.len())
                && !dims.is_empty()
                && result.is_some_and(|ty| ty.element().is_some_and(|element| !element.is_float())),
            "it counts along a dimension that there is not",
        ),
        Op::Reduce(kind, dims) => {
            let left = from.iter().enumerate();
            let left = left
                .filter(|(d, _)| !dims.contains(&(*d as i64)))
                .map(|(_, n)| *n);
            let float = matches!(kind, Reduction::Maximum | Reduction::Minimum);
            let element = first.and_then(Type::element);
            let integers = !matches!(
                kind,
                Reduction::Add | Reduction::Mul | Reduction::Maximum | Reduction::Minimum
            );
            let fits =
                element.is_some_and(|e| !(float && !e.is_float() || integers && e.is_float()));
            need(
                distinct(dims, from.len())
                    && left.eq(to.iter().copied())
                    && same_element()
                    && fits
                    && operands[1] == results[0],
                "its result is not what is left of its operand",
            )
        }
        Op::ReduceIndex(_, axis) => {
            let left = from.iter().enumerate().filter(|(d, _)| *d as i64 != *axis);
            need(
                inside(*axis) && left.map(|(_, n)| *n).eq(to.iter().copied()),
                "its result is not what is left of its operand",
            )
        }
        Op::Transpose(permutation) => {
            let good = permutation.len() == from.len()
                && distinct(permutation, from.len())
                && permutation
                    .iter()
                    .zip(to)
                    .all(|(d, n)| from[*d as usize] == *n);
            need(
                good && same_element() && to.len() == from.len(),
                "its permutation does not fit",
            )
        }
        Op::Concatenate(dim) => concatenate_fits(*dim, operands, results[0]),
        Op::Slice(offsets, sizes, strides) => {
            let rank = offsets.len();
            let good = rank == sizes.len()
                && rank == strides.len()
                && rank <= from.len()
                && from.len() == to.len()
                && sizes.iter().eq(&to[..rank])
                && from[rank..] == to[rank..]
                && (0..rank).all(|d| {
                    let last = sizes[d]
                        .checked_sub(1)
                        .and_then(|n| n.checked_mul(strides[d]));
                    let last = last.and_then(|last| last.checked_add(offsets[d]));
                    offsets[d] >= 0 && strides[d] > 0 && last.is_some_and(|last| last < from[d])
                });
            need(good && same_element(), "it reaches beyond its operand")
        }
        Op::Extract(position) => {
            let good = position.len() <= from.len()
                && position.iter().zip(from).all(|(p, n)| (0..*n).contains(p))
                && from[position.len()..] == *to;
            need(good && same_element(), "it reaches beyond its operand")
        }
        Op::Rotate(dim, stride) => need(
            inside(*dim)
                && stride.is_none_or(|(_, dim)| inside(dim))
                && operands[1].as_scalar() == Some(Element::I32)
                && operands[0] == results[0],
            "it rotates along a dimension that there is not",
        ),
        Op::Repeat(dim, times) => {
            let good = inside(*dim)
                && from.len() == to.len()
                && (0..from.len()).all(|d| {
                    let times = if d as i64 == *dim { *times } else { 1 };
                    from[d].checked_mul(times) == Some(to[d])
                });
            need(
                good && same_element(),
                "its result is not its operand so many times",
            )
        }
        Op::Gather(dims) => need(
            distinct(dims, from.len())
                && operands[1].dims() == to
                && from.len() == to.len()
                && same_element()
                && operands[1]
                    .element()
                    .is_some_and(|element| !element.is_float()),
            "its indices do not fit its operand",
        ),
        Op::BitcastVector => {
            let bits = |ty: &Type| ty.element().map_or(0, |e| i64::from(e.bits()));
            let rank = from.len();
            let good = rank == to.len() && rank >= 1 && {
                // Sublanes hold several narrow elements.
                let packed = rank.saturating_sub(2);
                (0..rank).all(|d| match d == packed && rank >= 2 {
                    true => from[d] * bits(operands[0]) == to[d] * bits(results[0]),
                    false => {
                        rank == 1 && from[d] * bits(operands[0]) == to[d] * bits(results[0])
                            || from[d] == to[d]
                    }
                })
            };
            need(good, "its result has another number of bits")
        }
        Op::PackElementwise(_) => need(
            !operands.is_empty() && operands.iter().all(|ty| **ty == *operands[0]) && from == to,
            "its operands and its result differ in shape",
        ),
        Op::UnpackElementwise(_, index) => need(
            from == to && (0..32).contains(index),
            "its operand and its result differ in shape",
        ),
        Op::Matmul(dims, _) => matmul_fits(dims, operands, results[0]),
        Op::RandomBits => need(
            results[0].element().is_some_and(|e| e.bits() == 32),
            "it gives words of 32 bits",
        ),
        Op::SeedRandom => need(
            !operands.is_empty()
                && operands
                    .iter()
                    .all(|ty| ty.as_scalar() == Some(Element::I32)),
            "its seed are scalars",
        ),
        _ => return None,
    })
}

fn concatenate_fits(dim: i64, operands: &[&Type], result: &Type) -> Checked {
    let rank = result.dims().len();
    let Some(dim) = usize::try_from(dim).ok().filter(|d| *d < rank) else {
        return Err("there is no such dimension".to_owned());
    };
    let mut sum = 0i64;
    for ty in operands {
        let good = ty.dims().len() == rank
            && ty.element() == result.element()
            && (0..rank).all(|d| d == dim || ty.dims()[d] == result.dims()[d]);
        need(good, "its operands do not fit beside each other")?;
        sum = sum.saturating_add(ty.dims()[dim]);
    }
    need(
        sum == result.dims()[dim],
        "its result has another size than its operands together",
    )
}

fn matmul_fits(dims: &DotDims, operands: &[&Type], result: &Type) -> Checked {
    let (lhs, rhs) = (operands[0].dims(), operands[1].dims());
    let used = |a: &[i64], b: &[i64]| [a, b].concat();
    let sizes =
        |names: &[i64], of: &[i64]| -> Vec<i64> { names.iter().map(|d| of[*d as usize]).collect() };
    need(
        distinct(&used(&dims.lhs_contracting, &dims.lhs_batch), lhs.len())
            && distinct(&used(&dims.rhs_contracting, &dims.rhs_batch), rhs.len())
            && dims.lhs_contracting.len() == dims.rhs_contracting.len()
            && dims.lhs_batch.len() == dims.rhs_batch.len(),
        "its dimension numbers do not fit its operands",
    )?;
    need(
        sizes(&dims.lhs_contracting, lhs) == sizes(&dims.rhs_contracting, rhs)
            && sizes(&dims.lhs_batch, lhs) == sizes(&dims.rhs_batch, rhs),
        "what is summed over differs in size",
    )?;
    let of = |&(operand, dim): &(i64, i64)| {
        let dims = [lhs, rhs].get(usize::try_from(operand).ok()?).copied()?;
        dims.get(usize::try_from(dim).ok()?).copied()
    };
    let output: Option<Vec<i64>> = dims.output.iter().map(of).collect();
    let contracted = dims.output.iter().any(|(operand, dim)| match operand {
        0 => dims.lhs_contracting.contains(dim),
        _ => dims.rhs_contracting.contains(dim),
    });
    let distinct = (0..dims.output.len()).all(|i| !dims.output[..i].contains(&dims.output[i]));
    let free = lhs.len() + rhs.len() - 2 * dims.lhs_contracting.len() - dims.lhs_batch.len();
    need(
        output.as_deref() == Some(result.dims())
            && !contracted
            && distinct
            && dims.output.len() == free
            && operands[2] == result,
        "its result is not what its operands give",
    )
}

fn is_index(ty: &Type) -> bool {
    matches!(ty, Type::Scalar(Element::Index | Element::Int(32)))
}

fn data(ty: &Type) -> Option<(&MemRefType, Element)> {
    let memref = ty.as_memref()?;
    match memref.item {
        Item::Data(element) => Some((memref, element)),
        _ => None,
    }
}

fn is_semaphore(ty: &Type) -> bool {
    let memref = ty.as_memref();
    memref.is_some_and(|memref| !matches!(memref.item, Item::Data(_)))
}

fn memory(op: &Op, operands: &[&Type], results: &[&Type]) -> Checked {
    match op {
        Op::Load { strides, masked } => {
            access(operands, results.first().copied(), strides, *masked)
        }
        Op::Store {
            strides, masked, ..
        } => match operands.split_first() {
            Some((value, rest)) => access(rest, Some(value), strides, *masked),
            None => Err("it stores nothing".to_owned()),
        },
        Op::LoadScalar => scalar_access(operands, results.first().copied()),
        Op::StoreScalar => match operands.split_first() {
            Some((value, rest)) => scalar_access(rest, Some(value)),
            None => Err("it stores nothing".to_owned()),
        },
        Op::MemRefSlice => {
            let (Some(from), Some(to)) = (
                operands.first().and_then(|ty| ty.as_memref()),
                results[0].as_memref(),
            ) else {
                return Err("it takes a part of what is no memory".to_owned());
            };
            need(
                operands.len() == 1 + from.dims.len()
                    && operands[1..].iter().all(|ty| is_index(ty))
                    && from.dims.len() == to.dims.len()
                    && from.item == to.item
                    && to.static_dims().is_some(),
                "its indices or its result do not fit the memory",
            )
        }
        Op::MemRefSqueeze | Op::MemRefReshape | Op::MemRefBitcast | Op::MemRefCast => {
            let views = operands[0].as_memref().zip(results[0].as_memref());
            let Some((from, to)) = views else {
                return Err("it is a view of what is no memory".to_owned());
            };
            view_fits(op, from, to)
        }
        Op::Alloc => {
            let memref = results[0].as_memref();
            let good = memref.is_some_and(|memref| memref.static_dims().is_some());
            need(good, "it allocates memory of a size that is not known")
        }
        Op::EnqueueDma(groups) | Op::WaitDma(groups, _) => copy_fits(groups, operands),
        Op::Signal { .. } => need(
            is_semaphore(operands[0]) && operands[1..].iter().all(|ty| is_index(ty)),
            "it signals what is no semaphore, or by what is no number",
        ),
        Op::Wait => need(
            is_semaphore(operands[0]) && is_index(operands[1]),
            "it waits for what is no semaphore, or for what is no number",
        ),
        Op::ReadSemaphore => need(is_semaphore(operands[0]), "it reads what is no semaphore"),
        Op::BarrierSemaphore => need(is_semaphore(results[0]), "it gives no semaphore"),
        Op::DeviceId | Op::CoreId | Op::GridBound(_) => {
            need(is_index(results[0]), "it gives what is no number")
        }
        Op::If | Op::Condition => {
            let first = operands.first().and_then(|ty| ty.as_scalar());
            need(
                first == Some(Element::BOOL),
                "its condition is no truth value",
            )
        }
        Op::For => {
            let bounds = operands.get(..3).unwrap_or_default();
            need(
                bounds.len() == 3 && bounds.iter().all(|ty| is_index(ty) && *ty == bounds[0]),
                "its bounds are no numbers",
            )
        }
        _ => Ok(()),
    }
}

/// A reference, its indices and perhaps a mask, and the vector that is loaded or stored.
fn access(operands: &[&Type], value: Option<&Type>, strides: &[i64], masked: bool) -> Checked {
    let Some(vector) = value.and_then(Type::as_vector) else {
        return Err("it loads or stores what is no vector".to_owned());
    };
    let Some((memref, element)) = operands.first().and_then(|ty| data(ty)) else {
        return Err("it reads or writes what is no memory of numbers".to_owned());
    };
    let rank = memref.dims.len();
    let indices = operands.get(1..1 + rank).unwrap_or_default();
    need(
        operands.len() == 1 + rank + usize::from(masked)
            && indices.iter().all(|ty| is_index(ty))
            && element == vector.element
            && vector.dims.len() <= rank
            && (strides.is_empty() || strides.len() == rank)
            && strides.iter().all(|stride| *stride > 0),
        "its indices or its vector do not fit the memory",
    )?;
    if masked {
        let mask = operands[1 + rank];
        need(
            mask.dims() == vector.dims && mask.element() == Some(Element::BOOL),
            "its mask does not fit the vector",
        )?;
    }
    Ok(())
}

fn scalar_access(operands: &[&Type], value: Option<&Type>) -> Checked {
    let Some((memref, element)) = operands.first().and_then(|ty| data(ty)) else {
        return Err("it reads or writes what is no memory of numbers".to_owned());
    };
    need(
        operands.len() == 1 + memref.dims.len()
            && operands[1..].iter().all(|ty| is_index(ty))
            && value.and_then(Type::as_scalar) == Some(element),
        "its indices or its value do not fit the memory",
    )
}

fn view_fits(op: &Op, from: &MemRefType, to: &MemRefType) -> Checked {
    let bits = |memref: &MemRefType| match memref.item {
        Item::Data(element) => i64::from(element.bits()),
        _ => 1,
    };
    let count = |memref: &MemRefType| {
        let dims = memref.static_dims()?;
        dims.iter()
            .try_fold(bits(memref), |product, dim| product.checked_mul(*dim))
    };
    let (size, other) = (count(from), count(to));
    let good = match op {
        Op::MemRefSqueeze => {
            let long = |memref: &MemRefType| -> Vec<i64> {
                let dims = memref.static_dims().unwrap_or_default();
                dims.into_iter().filter(|dim| *dim != 1).collect()
            };
            from.item == to.item && long(from) == long(to) && to.dims.len() <= from.dims.len()
        }
        Op::MemRefReshape => from.item == to.item,
        Op::MemRefCast => from.item == to.item && from.dims == to.dims,
        _ => from.dims.len() == to.dims.len(),
    };
    need(
        good && size.is_some() && size == other,
        "its result is not the same memory as its operand",
    )
}

fn copy_fits(groups: &CopyOperands, operands: &[&Type]) -> Checked {
    let mut next = operands.iter().copied();
    let source = next.next();
    let good = {
        let source_semaphore = !groups.source_semaphore || next.next().is_some_and(is_semaphore);
        let target = next.next();
        let target_semaphore = !groups.target_semaphore || next.next().is_some_and(is_semaphore);
        let ends = source.and_then(data).zip(target.and_then(data));
        source_semaphore
            && target_semaphore
            && ends.is_some_and(|((from, a), (to, b))| {
                a == b
                    && from.static_dims().is_some()
                    && from.dims == to.dims
                    && from.space != MemorySpace::Semaphore
            })
            && next.all(is_index)
    };
    need(good, "the ends of the copy differ, or a semaphore is none")
}
