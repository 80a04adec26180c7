//! Translation of references, copies and semaphores.

use super::references::{AT_RUN_TIME, Reference, Size};
use super::{Error, Made, Semaphores, Translator};
use crate::memory::geometry::Geometry;
use crate::program::{Comparison, Remote, SemaphoreRef, Slice, Space, StatementKind};
use tegula_expr::{Cmp, Term};
use tegula_mosaic::ir::{CopyOperands, Op, Operation, Value};
use tegula_mosaic::types::Item;

const NO_SEMAPHORE: &str = "it waits for a side of the copy that has no semaphore";

/// The source and target of a copy, with its semaphores.
struct Ends {
    source: Slice,
    target: Slice,
    source_semaphore: Option<SemaphoreRef>,
    target_semaphore: Option<SemaphoreRef>,
    device: Option<Term>,
}

impl<'k> Translator<'k> {
    pub(super) fn reference(&self, operation: &Operation, value: Value) -> Made<Reference> {
        let known = self.references.get(&value).cloned();
        known.ok_or_else(|| Error::at(operation, "memory of this kind is not simulated"))
    }

    /// The sizes of a reference; a size known only at run time is [`AT_RUN_TIME`].
    fn sizes_of(&self, operation: &Operation, value: Value) -> Made<Vec<i64>> {
        let memref = self.module.values[value].as_memref();
        let memref = memref.ok_or_else(|| Error::at(operation, "it is not a memory reference"))?;
        let sizes = memref.dims.iter();
        Ok(sizes.map(|size| size.unwrap_or(AT_RUN_TIME)).collect())
    }

    fn dims_of(&self, operation: &Operation, value: Value) -> Made<Vec<i64>> {
        let memref = self.module.values[value].as_memref();
        let dims = memref.and_then(tegula_mosaic::types::MemRefType::static_dims);
        dims.ok_or_else(|| Error::at(operation, "the sizes of its memory are not known"))
    }

    pub(super) fn memory_operation(&mut self, operation: &'k Operation) -> Made<()> {
        match &operation.op {
            Op::Alloc => {
                self.flush();
                self.scratch(operation.results[0])?;
                Ok(())
            }
            Op::MemRefSlice
            | Op::MemRefSqueeze
            | Op::MemRefReshape
            | Op::MemRefBitcast
            | Op::MemRefCast => self.view_operation(operation),
            Op::LoadScalar => {
                let source = self.scalar_slice(operation, &operation.operands)?;
                let variable = self.defined(operation.results[0], "l");
                self.push(StatementKind::Load { variable, source });
                Ok(())
            }
            Op::StoreScalar => {
                self.flush();
                let value = self.scalar(operation.operands[0])?;
                let destination = self.scalar_slice(operation, &operation.operands[1..])?;
                self.push(StatementKind::StoreScalar { destination, value });
                Ok(())
            }
            Op::BarrierSemaphore => {
                let array = match self.barrier {
                    Some(array) => array,
                    None => self.semaphore_array("barrier", 1),
                };
                self.barrier = Some(array);
                self.semaphores.insert(
                    operation.results[0],
                    Semaphores {
                        array,
                        first: Term::constant(0),
                        dims: Vec::new(),
                        strides: Vec::new(),
                    },
                );
                Ok(())
            }
            Op::ReadSemaphore => {
                self.flush();
                let semaphore = self.semaphore(operation, operation.operands[0])?;
                let variable = self.defined(operation.results[0], "count");
                self.push(StatementKind::ReadSemaphore {
                    variable,
                    semaphore,
                });
                Ok(())
            }
            Op::Signal { device, core } => {
                self.flush();
                if *core {
                    let number = operation.operands.last().copied();
                    self.only_core(operation, number.unwrap_or(operation.operands[0]))?;
                }
                let semaphore = self.semaphore(operation, operation.operands[0])?;
                let amount = self.scalar(operation.operands[1])?;
                let core = match device {
                    true => Some(self.scalar(operation.operands[2])?),
                    false => None,
                };
                self.push(StatementKind::Signal {
                    semaphore,
                    amount,
                    core,
                });
                Ok(())
            }
            Op::Wait => {
                self.flush();
                let semaphore = self.semaphore(operation, operation.operands[0])?;
                let amount = self.scalar(operation.operands[1])?;
                self.push(StatementKind::Await { semaphore, amount });
                Ok(())
            }
            Op::EnqueueDma(groups) => self.start(operation, *groups),
            Op::WaitDma(groups, wait_target) => self.wait(operation, *groups, *wait_target),
            _ => Err(Error::at(operation, "this operation is not simulated")),
        }
    }

    fn view_operation(&mut self, operation: &'k Operation) -> Made<()> {
        let (from, to) = (operation.operands[0], operation.results[0]);
        if let Some(semaphores) = self.semaphores.get(&from).cloned() {
            let dims = self.dims_of(operation, to)?;
            let made = self.semaphore_view(operation, semaphores, dims)?;
            self.semaphores.insert(to, made);
            return Ok(());
        }
        let dims = self.sizes_of(operation, to)?;
        let reference = self.reference(operation, from)?;
        let made = match &operation.op {
            Op::MemRefSlice => {
                let terms = operation.operands[1..]
                    .iter()
                    .map(|index| self.scalar(*index));
                let terms = terms.collect::<Made<Vec<_>>>()?;
                for term in &terms {
                    self.after_open(term);
                }
                // The start indices are followed by the sizes that the type does not give.
                let (starts, at_run_time) = terms
                    .split_at_checked(dims.len())
                    .ok_or_else(|| Error::at(operation, "an index is missing"))?;
                let mut at_run_time = at_run_time.iter();
                let mut sizes = Vec::new();
                for size in &dims {
                    sizes.push(match *size {
                        AT_RUN_TIME => {
                            let size = at_run_time.next().cloned();
                            Size::AtRunTime(
                                size.ok_or_else(|| Error::at(operation, "a size is missing"))?,
                            )
                        }
                        size => Size::Known(size),
                    });
                }
                reference.part(starts, &sizes)
            }
            Op::MemRefSqueeze => reference.squeezed(&dims).ok_or_else(|| {
                Error::at(operation, "the sizes of its result do not fit its operands")
            })?,
            Op::MemRefReshape => reference.reshaped(&dims),
            Op::MemRefCast => reference,
            _ => {
                let element = |value: Value| match self.module.values[value].as_memref()?.item {
                    Item::Data(element) => Some(element),
                    _ => None,
                };
                let types = element(from).zip(element(to));
                let (own, wanted) = types.ok_or_else(|| {
                    Error::at(operation, "the element type of its memory is unknown")
                })?;
                reference.as_words(own, wanted)
            }
        };
        self.references.insert(to, made);
        Ok(())
    }

    fn semaphore_view(
        &mut self,
        operation: &Operation,
        mut semaphores: Semaphores,
        dims: Vec<i64>,
    ) -> Made<Semaphores> {
        match &operation.op {
            Op::MemRefSlice => {
                for (index, stride) in operation.operands[1..].iter().zip(&semaphores.strides) {
                    let start = self.scalar(*index)?;
                    semaphores.first = &semaphores.first + &(start * *stride);
                }
                semaphores.dims = dims;
            }
            Op::MemRefSqueeze => {
                let mut strides = Vec::new();
                let mut wanted = dims.iter().peekable();
                let own = semaphores.dims.clone();
                for (d, (size, stride)) in own.iter().zip(&semaphores.strides).enumerate() {
                    let rest = own.len() - d - 1;
                    let keeps = wanted.peek() == Some(&size) && (*size != 1 || rest < wanted.len());
                    if keeps {
                        wanted.next();
                        strides.push(*stride);
                    }
                }
                semaphores.strides = strides;
                semaphores.dims = dims;
            }
            _ => {
                return Err(Error::at(
                    operation,
                    "a reshaped array of semaphores is not simulated",
                ));
            }
        }
        Ok(semaphores)
    }

    fn semaphore(&self, operation: &Operation, value: Value) -> Made<SemaphoreRef> {
        let known = self.semaphores.get(&value);
        let semaphores =
            known.ok_or_else(|| Error::at(operation, "it uses an unknown semaphore"))?;
        if semaphores.dims.iter().product::<i64>() != 1 {
            return Err(Error::at(
                operation,
                "expected one semaphore, found several",
            ));
        }
        Ok(SemaphoreRef {
            array: semaphores.array,
            index: semaphores.first.clone(),
        })
    }

    fn scalar_slice(&mut self, operation: &Operation, operands: &[Value]) -> Made<Slice> {
        let reference = self.reference(operation, operands[0])?;
        let mut starts = Vec::new();
        for index in &operands[1..] {
            let term = self.scalar(*index)?;
            self.after_open(&term);
            starts.push(term);
        }
        let sizes = vec![Size::One; starts.len()];
        reference.part(&starts, &sizes).slice(operation)
    }

    fn ends(&mut self, operation: &Operation, groups: CopyOperands) -> Made<Ends> {
        let mut operands = operation.operands.iter().copied();
        let mut next = || {
            operands
                .next()
                .ok_or_else(|| Error::at(operation, "an operand is missing"))
        };
        let source = next()?;
        let source_semaphore = if groups.source_semaphore {
            Some(next()?)
        } else {
            None
        };
        let target = next()?;
        let target_semaphore = if groups.target_semaphore {
            Some(next()?)
        } else {
            None
        };
        let device = if groups.device { Some(next()?) } else { None };
        if groups.core && matches!(operation.op, Op::EnqueueDma(_)) {
            self.only_core(operation, next()?)?;
        }
        let [source, target] = self.same_sizes(operation, [source, target])?;
        let of = |value: Option<Value>| {
            value
                .map(|value| self.semaphore(operation, value))
                .transpose()
        };
        Ok(Ends {
            source: source.slice(operation)?,
            target: target.slice(operation)?,
            source_semaphore: of(source_semaphore)?,
            target_semaphore: of(target_semaphore)?,
            device: device.map(|value| self.scalar(value)).transpose()?,
        })
    }

    /// The ends of a copy, as boxes of their memory. If their sizes differ, dimensions of size 1
    /// are dropped, which only one of them may have.
    fn same_sizes(&mut self, operation: &Operation, ends: [Value; 2]) -> Made<[Reference; 2]> {
        let mut conditions = Vec::new();
        let mut whole = |end| {
            Ok(self
                .reference(operation, end)?
                .composed(Some(&mut conditions)))
        };
        let (mut source, mut target) = (whole(ends[0])?, whole(ends[1])?);
        for condition in conditions {
            let message = "a copy of joined dimensions that crosses a row's end is not simulated";
            self.push(StatementKind::Require {
                condition,
                message: format!("`{}`: {message}", operation.name).into(),
            });
        }
        if source.dims() != target.dims() {
            (source, target) = (source.without_ones(), target.without_ones());
        }
        Ok([source, target])
    }

    /// Checks a device's core number: a device is one core, number 0.
    fn only_core(&self, operation: &Operation, number: Value) -> Made<()> {
        match self.scalar(number)?.as_constant() {
            Some(0) => Ok(()),
            _ => Err(Error::at(
                operation,
                "another core of the same device is not simulated",
            )),
        }
    }

    fn start(&mut self, operation: &Operation, groups: CopyOperands) -> Made<()> {
        self.flush();
        let ends = self.ends(operation, groups)?;
        let semaphore = ends.target_semaphore.ok_or_else(|| {
            Error::at(
                operation,
                "expected a copy with a semaphore for its destination",
            )
        })?;
        let remote = match (ends.device, ends.source_semaphore) {
            (None, None) => None,
            (Some(core), sent) => Some(Remote { core, sent }),
            (None, sent @ Some(_)) => {
                // A copy to the same device is translated like one to another device.
                let own = self.variable("own");
                self.push(StatementKind::CoreNumber { variable: own });
                let core = Term::var(own.var());
                Some(Remote { core, sent })
            }
        };
        self.push(StatementKind::Start {
            source: ends.source,
            destination: ends.target,
            semaphore,
            remote,
        });
        Ok(())
    }

    fn wait(&mut self, operation: &Operation, groups: CopyOperands, target: bool) -> Made<()> {
        self.flush();
        if let Some(bytes) = self.waited_bytes(operation, groups)? {
            // The operands are the source, its semaphore if there is one, the destination, and its
            // semaphore.
            let at = match target {
                true => 2 + usize::from(groups.source_semaphore),
                false => 1,
            };
            let semaphore = operation.operands.get(at).copied();
            let semaphore = semaphore.ok_or_else(|| Error::at(operation, NO_SEMAPHORE))?;
            return self.wait_for_bytes(operation, semaphore, bytes);
        }
        let ends = self.ends(operation, groups)?;
        let semaphore = if target {
            ends.target_semaphore
        } else {
            ends.source_semaphore
        };
        let semaphore = semaphore.ok_or_else(|| Error::at(operation, NO_SEMAPHORE))?;
        self.push(StatementKind::WaitCopy {
            source: ends.source,
            destination: ends.target,
            semaphore,
        });
        Ok(())
    }

    /// The bytes of a wait, if its end may not be a box of its memory. A wait depends only on the
    /// number of bytes: kernels pass memory that they never copy, only because it has the right
    /// size.
    fn waited_bytes(&self, operation: &Operation, groups: CopyOperands) -> Made<Option<Term>> {
        let end = |at: usize| {
            let value = operation.operands.get(at);
            let value = value.ok_or_else(|| Error::at(operation, "an operand is missing"))?;
            self.reference(operation, *value)
        };
        let (source, target) = (end(0)?, end(1 + usize::from(groups.source_semaphore))?);
        // If one end is in HBM, the bytes are those of that end.
        let space = |end: &Reference| self.program.buffers[end.buffer].space;
        let counted = if space(&source) == Space::Hbm {
            source
        } else {
            target
        };
        let mut conditions = Vec::new();
        counted.composed(Some(&mut conditions));
        if conditions.is_empty() || counted.words.is_some() {
            return Ok(None);
        }
        let buffer = &self.program.buffers[counted.buffer];
        let geometry = Geometry::new(buffer, self.chip).map_err(|m| Error::at(operation, m))?;
        let (extents, rank) = (counted.extents(), geometry.dims.len());
        let Some(outer) = extents.len().checked_sub(2).filter(|_| rank > 1) else {
            return Ok(None);
        };
        // The tiled dimensions are the array's own.
        let mut high = vec![1; rank];
        for (at, (size, taken)) in extents[outer..].iter().enumerate() {
            match taken.as_constant() {
                Some(taken) if *size == geometry.dims[rank - 2 + at] => high[rank - 2 + at] = taken,
                _ => return Ok(None),
            }
        }
        let mut bytes = Term::constant(geometry.row_bytes(&high));
        for (_, taken) in &extents[..outer] {
            bytes = bytes.mul(taken);
        }
        Ok(Some(bytes))
    }

    /// Waits for a number of bytes, if it is not zero.
    fn wait_for_bytes(&mut self, operation: &Operation, semaphore: Value, bytes: Term) -> Made<()> {
        let semaphore = self.semaphore(operation, semaphore)?;
        let wait = self.inside(|own| {
            own.push(StatementKind::Wait {
                semaphore,
                bytes: Some(bytes.clone()),
            });
            Ok(())
        })?;
        self.push(StatementKind::If {
            condition: Comparison {
                left: Term::constant(0),
                cmp: Cmp::Lt,
                right: bytes,
            },
            then: wait,
            otherwise: Vec::new(),
        });
        Ok(())
    }
}
