//! The arguments of a kernel: grid sizes, scalars, windows of arrays, scratch memory.

use super::references::Reference;
use super::{Error, Made, Semaphores, Translator, array_shape, extents};
use crate::program::{
    Buffer, BufferId, Grid, GridDimension, Place, Remote, Role, SemaphoreRef, Slice, SliceEntry,
    Space, Statement, StatementKind, Variable, VariableId, Window,
};
use rustc_hash::FxHashSet;
use tegula_expr::Term;
use tegula_mosaic::ir::{self, Block, Kernel, Op, Semantics, Value};
use tegula_mosaic::types::{Element, Item, MemRefType, MemorySpace};

/// A window of the kernel that is an array.
struct Given<'k> {
    value: Value,
    memref: &'k MemRefType,
    window: Option<&'k ir::Window>,
    /// The number of the window's input or result.
    number: usize,
    is_result: bool,
}

impl<'k> Translator<'k> {
    pub(super) fn kernel(&mut self) -> Made<()> {
        let kernel = &self.module.kernel;
        self.line = first_place(&kernel.function.body).map_or(0, |place| self.place(place));
        let arguments = &kernel.function.body.arguments;
        let rank = kernel.grid.len();
        let windows_from = rank + kernel.scalar_prefetch;
        let scratch_from = arguments.len() - kernel.scratch;
        let mut number = self.bounds(kernel)?;
        for &value in &arguments[rank..windows_from] {
            self.prefetched(value, number)?;
            number += 1;
        }
        let count = scratch_from - windows_from;
        let inputs = self.input_count(number, &arguments[windows_from..scratch_from])?;
        let mut given = Vec::new();
        for (at, &value) in arguments[windows_from..scratch_from].iter().enumerate() {
            let is_result = at >= inputs;
            given.push(Given {
                value,
                memref: self.memref(value)?,
                window: kernel.windows.get(at),
                number: if is_result { at - inputs } else { number + at },
                is_result,
            });
        }
        if count < inputs {
            return Err(Error::new(format!(
                "{} inputs are given, but the kernel has {}",
                number + inputs,
                number + count
            )));
        }
        let mut dimensions = Vec::new();
        for (d, &value) in arguments[..rank].iter().enumerate() {
            let variable = self.variable(&format!("i{d}"));
            self.scalars.insert(value, Term::var(variable.var()));
            dimensions.push(GridDimension {
                variable,
                low: Term::constant(0),
                high: self.grid[d].clone(),
                parallel: kernel.semantics.get(d) == Some(&Semantics::Parallel),
            });
        }
        let mut windows = Vec::new();
        let arrays = self.hbm_arrays(kernel, &given)?;
        for (given, array) in given.iter().zip(arrays) {
            windows.extend(self.window(kernel, given, array)?);
        }
        for &value in &arguments[scratch_from..] {
            self.scratch(value)?;
        }
        let body = self.inside(|own| own.block(&kernel.function.body).map(drop))?;
        self.push(StatementKind::Grid(Box::new(Grid {
            dimensions,
            windows,
            body,
        })));
        self.program.body = std::mem::take(&mut self.out);
        Ok(())
    }

    /// Runs a translation and returns its statements as a body of their own.
    pub(super) fn inside(
        &mut self,
        translate: impl FnOnce(&mut Self) -> Made<()>,
    ) -> Made<Vec<Statement>> {
        self.flush();
        let outer = std::mem::take(&mut self.out);
        let done = translate(self);
        self.flush();
        let body = std::mem::replace(&mut self.out, outer);
        done.map(|()| body)
    }

    fn memref(&self, value: Value) -> Made<&'k MemRefType> {
        let memref = self.module.values[value].as_memref();
        memref.ok_or_else(|| Error::new("an argument of the kernel is not a memory reference"))
    }

    /// Reads the sizes of the grid, including those that the call supplies; returns the number of
    /// the latter.
    fn bounds(&mut self, kernel: &Kernel) -> Made<usize> {
        let mut number = 0;
        for (d, size) in kernel.grid.iter().enumerate() {
            let bound = match size {
                Some(size) => Term::constant(*size),
                None => {
                    let name = format!("size{d}");
                    let variable = self.variable(&name);
                    let dims = self
                        .arrays
                        .input_dims
                        .get(number)
                        .cloned()
                        .unwrap_or_default();
                    let dims = if dims.iter().product::<i64>() == 1 {
                        dims
                    } else {
                        Vec::new()
                    };
                    let buffer = self.in_smem(&name, Element::I32, &dims, number)?;
                    self.push(StatementKind::Load {
                        variable,
                        source: Slice {
                            buffer,
                            entries: dims
                                .iter()
                                .map(|_| SliceEntry::Element(Term::constant(0)))
                                .collect(),
                        },
                    });
                    number += 1;
                    Term::var(variable.var())
                }
            };
            self.grid.push(bound);
        }
        Ok(number)
    }

    /// Declares an input that is copied to SMEM before the kernel begins.
    fn in_smem(
        &mut self,
        name: &str,
        element: Element,
        dims: &[i64],
        number: usize,
    ) -> Made<BufferId> {
        let array = self.buffer(&format!("{name}_hbm"), Space::Hbm, element, dims)?;
        self.program.buffers[array].role = Role::Parameter(number);
        let buffer = self.buffer(name, Space::Smem, element, dims)?;
        let semaphore = self.semaphore_array(&format!("{name}_sem"), 1);
        let whole = |buffer| Slice {
            buffer,
            entries: dims.iter().map(|_| SliceEntry::Whole).collect(),
        };
        let semaphore = SemaphoreRef {
            array: semaphore,
            index: Term::constant(0),
        };
        self.push(StatementKind::Declare(array));
        self.push(StatementKind::Declare(buffer));
        self.push(StatementKind::Start {
            source: whole(array),
            destination: whole(buffer),
            semaphore: semaphore.clone(),
            remote: None::<Remote>,
        });
        self.push(StatementKind::Wait {
            semaphore,
            bytes: None,
        });
        Ok(buffer)
    }

    fn prefetched(&mut self, value: Value, number: usize) -> Made<()> {
        let memref = self.memref(value)?;
        let (Item::Data(element), Some(dims)) = (memref.item, memref.static_dims()) else {
            return Err(Error::new("scalars of this type are not simulated"));
        };
        let buffer = self.in_smem(&format!("scalars{number}"), element, &dims, number)?;
        self.references
            .insert(value, Reference::whole(buffer, &dims));
        Ok(())
    }

    /// The number of the kernel's windows that are inputs.
    fn input_count(&self, before: usize, windows: &[Value]) -> Made<usize> {
        if let Some(inputs) = self.arrays.inputs {
            return inputs.checked_sub(before).ok_or_else(|| {
                Error::new(format!(
                    "{inputs} inputs are given, but the kernel takes at least {before}"
                ))
            });
        }
        let mut written = FxHashSet::default();
        writes(&self.module.kernel.function.body, &mut written);
        let results = windows
            .iter()
            .rev()
            .take_while(|value| written.contains(*value));
        Ok(windows.len() - results.count())
    }

    /// Declares a buffer for the array of each window.
    fn hbm_arrays(&mut self, kernel: &Kernel, given: &[Given<'k>]) -> Made<Vec<BufferId>> {
        let mut made: Vec<BufferId> = Vec::new();
        for one in given {
            let Item::Data(element) = one.memref.item else {
                return Err(Error::new("expected an array, found a semaphore"));
            };
            let windowed = one.window.is_some_and(|window| window.transform.is_some());
            let own = one.memref.static_dims();
            let stated = match one.is_result {
                true => self.arrays.result_dims.get(one.number),
                false => self.arrays.input_dims.get(one.number),
            };
            let known = stated.filter(|dims| {
                let rank = one
                    .window
                    .filter(|_| windowed)
                    .map(|window| window.bounds.len());
                match (rank, &own) {
                    (Some(rank), _) => dims.len() == rank,
                    (None, Some(own)) => *dims == own,
                    (None, None) => true,
                }
            });
            let dims = match (known, windowed, own) {
                (Some(dims), ..) => dims.clone(),
                (None, false, Some(own)) => own,
                (None, true, _) => extents::of(self.module, kernel, one.window, self.arrays)?,
                _ => return Err(Error::new("an array of unknown sizes is not simulated")),
            };
            let alias = self.arrays.aliases.get(one.number).copied().flatten();
            let shared = alias.filter(|_| one.is_result).and_then(|input| {
                let place = given
                    .iter()
                    .position(|other| !other.is_result && other.number == input)?;
                made.get(place).copied()
            });
            if let Some(shared) = shared {
                if let Some(parameter) = self.program.buffers[shared].role.parameter() {
                    self.program.buffers[shared].role = Role::Updated {
                        parameter,
                        result: one.number,
                    };
                }
                made.push(shared);
                continue;
            }
            let (name, role) = match one.is_result {
                true => (format!("out{}", one.number), Role::Result(one.number)),
                false => (format!("in{}", one.number), Role::Parameter(one.number)),
            };
            let buffer = self.buffer(&name, Space::Hbm, element, &dims)?;
            self.program.buffers[buffer].role = role;
            self.push(StatementKind::Declare(buffer));
            made.push(buffer);
        }
        Ok(made)
    }

    /// Declares the memory of an argument: the array itself, or a block of it in the core's memory.
    fn window(
        &mut self,
        kernel: &Kernel,
        given: &Given<'k>,
        array: BufferId,
    ) -> Made<Option<Window>> {
        let dims = self.program.buffers[array].shape.static_dims();
        let dims = dims.unwrap_or_default().to_vec();
        let own = given.memref.static_dims();
        let own = own.ok_or_else(|| Error::new("a window of unknown sizes is not simulated"))?;
        let space = match given.memref.space {
            MemorySpace::Any | MemorySpace::Hbm | MemorySpace::Host => {
                self.references
                    .insert(given.value, Reference::whole(array, &dims));
                return Ok(None);
            }
            MemorySpace::Vmem => Space::Vmem,
            MemorySpace::Smem => Space::Smem,
            MemorySpace::Cmem => Space::Cmem,
            other => {
                return Err(Error::new(format!(
                    "a window in {other:?} is not simulated"
                )));
            }
        };
        let Item::Data(element) = given.memref.item else {
            return Err(Error::new("expected an array, found a semaphore"));
        };
        let name = self.program.buffers[array].name.clone();
        let name = match given.is_result {
            true => format!("out{}_block", given.number),
            false => format!("{name}_block"),
        };
        let transform = given
            .window
            .and_then(|window| Some((window, window.transform.as_ref()?)));
        let (sizes, indices, steps, statements) = match transform {
            None => {
                let zeros = dims.iter().map(|_| Term::constant(0)).collect();
                (dims.clone(), zeros, Vec::new(), Vec::new())
            }
            Some((window, function)) => {
                let (mut indices, statements) = self.transform(kernel, function)?;
                let steps = match &window.elements {
                    Some((low, _)) => {
                        // Indices count from the start of the padding before the array, for which
                        // there is no memory.
                        for (index, low) in indices.iter_mut().zip(low) {
                            *index = &*index + -*low;
                        }
                        vec![1; window.bounds.len()]
                    }
                    None => Vec::new(),
                };
                (window.bounds.clone(), indices, steps, statements)
            }
        };
        if sizes.len() != dims.len() {
            return Err(Error::new(format!(
                "`{name}` has {} dimensions, but its window has {}",
                dims.len(),
                sizes.len()
            )));
        }
        let block = self.buffer(&name, space, element, &sizes)?;
        let reference = Reference::whole(block, &sizes).squeezed(&own);
        let reference = reference.ok_or_else(|| {
            Error::new(format!(
                "the sizes of the window of `{name}` differ from those of the kernel's argument"
            ))
        })?;
        let left_out = reference.left_out();
        if !left_out.is_empty() {
            self.program.hidden.insert(block, left_out);
        }
        self.references.insert(given.value, reference);
        let single = kernel.grid.is_empty() || transform.is_none();
        let buffers = match given.window.and_then(|window| window.buffers) {
            Some(buffers) => buffers,
            None if single => 1,
            None => 2,
        };
        Ok(Some(Window {
            block,
            array,
            sizes,
            indices,
            steps,
            transform: statements,
            buffers,
            output: given.is_result,
            line: self.line,
        }))
    }

    /// The indices that a window's function returns, and the statements that compute them.
    fn transform(&mut self, kernel: &Kernel, name: &str) -> Made<(Vec<Term>, Vec<Statement>)> {
        let function = self.module.function(name);
        let function =
            function.ok_or_else(|| Error::new(format!("function `{name}` does not exist")))?;
        let arguments = &kernel.function.body.arguments;
        for (own, given) in function.body.arguments.iter().zip(arguments) {
            if let Some(term) = self.scalars.get(given).cloned() {
                self.scalars.insert(*own, term);
            }
            if let Some(reference) = self.references.get(given).cloned() {
                self.references.insert(*own, reference);
            }
        }
        let line = self.line;
        let mut indices = Vec::new();
        let statements = self.inside(|own| {
            let last = own.block(&function.body)?;
            let operands = last.map(|end| end.operands.clone()).unwrap_or_default();
            for operand in operands {
                indices.push(own.scalar(operand)?);
            }
            Ok(())
        })?;
        self.line = line;
        // Indices that are constants or variables of the grid need no statements.
        let grid: Vec<_> = arguments[..kernel.grid.len()]
            .iter()
            .filter_map(|value| self.scalars.get(value)?.as_var())
            .collect();
        let mut plain = true;
        for index in &indices {
            index.for_each_var(&mut |var| plain &= grid.contains(&var));
        }
        Ok((indices, if plain { Vec::new() } else { statements }))
    }

    pub(super) fn scratch(&mut self, value: Value) -> Made<Option<BufferId>> {
        let memref = self.memref(value)?;
        let dims = memref.static_dims();
        let dims =
            dims.ok_or_else(|| Error::new("scratch memory of unknown size is not simulated"))?;
        let Item::Data(element) = memref.item else {
            let count = dims.iter().product();
            let name = format!("sem{}", self.program.semaphores.len());
            let array = self.semaphore_array(&name, count);
            let mut strides = vec![1; dims.len()];
            for d in (1..dims.len()).rev() {
                strides[d - 1] = strides[d] * dims[d];
            }
            self.semaphores.insert(
                value,
                Semaphores {
                    array,
                    first: Term::constant(0),
                    dims,
                    strides,
                },
            );
            return Ok(None);
        };
        let space = match memref.space {
            MemorySpace::Vmem => Space::Vmem,
            MemorySpace::Smem => Space::Smem,
            MemorySpace::Cmem => Space::Cmem,
            MemorySpace::Any | MemorySpace::Hbm | MemorySpace::Host => Space::Hbm,
            other => {
                return Err(Error::new(format!(
                    "scratch memory in {other:?} is not simulated"
                )));
            }
        };
        let name = format!("scratch{}", self.program.buffers.len());
        let buffer = self.buffer(&name, space, element, &dims)?;
        self.push(StatementKind::Declare(buffer));
        self.references
            .insert(value, Reference::whole(buffer, &dims));
        Ok(Some(buffer))
    }

    fn buffer(
        &mut self,
        name: &str,
        space: Space,
        element: Element,
        dims: &[i64],
    ) -> Made<BufferId> {
        let shape = array_shape(element, dims, self.chip, space != Space::Smem)?;
        Ok(self.program.buffers.push(Buffer {
            name: name.to_owned(),
            space,
            shape,
            role: Role::Scratch,
            offset: None,
            program_lifetime: false,
        }))
    }

    pub(super) fn semaphore_array(
        &mut self,
        name: &str,
        count: i64,
    ) -> crate::program::SemaphoreId {
        self.program.semaphores.push(crate::program::Semaphores {
            name: name.to_owned(),
            count,
        })
    }

    pub(super) fn variable(&mut self, name: &str) -> VariableId {
        self.program.variables.push(Variable {
            name: name.to_owned(),
            range: None,
        })
    }

    /// The number of a place in the source.
    pub(super) fn place(&mut self, place: &ir::Place) -> u32 {
        let place = Place {
            file: place.file.clone(),
            line: place.line,
        };
        if let Some(&number) = self.places.get(&place) {
            return number;
        }
        self.program.places.push(place.clone());
        let number = u32::try_from(self.program.places.len()).unwrap_or(u32::MAX);
        self.places.insert(place, number);
        number
    }

    pub(super) fn push(&mut self, kind: StatementKind) {
        self.out.push(Statement {
            kind,
            line: self.line,
        });
    }
}

fn first_place(block: &Block) -> Option<&ir::Place> {
    block
        .operations
        .iter()
        .find_map(|operation| operation.place.as_ref())
}

/// Collects the references that are written by stores or copies.
fn writes(block: &Block, written: &mut FxHashSet<Value>) {
    // In reverse order, so that views are seen before the references that they derive from.
    for operation in block.operations.iter().rev() {
        for region in &operation.regions {
            writes(region, written);
        }
        match &operation.op {
            Op::Store { .. } | Op::StoreScalar => {
                written.extend(operation.operands.get(1).copied());
            }
            Op::EnqueueDma(groups) => {
                let at = 1 + usize::from(groups.source_semaphore);
                written.extend(operation.operands.get(at).copied());
            }
            Op::MemRefSlice
            | Op::MemRefSqueeze
            | Op::MemRefReshape
            | Op::MemRefBitcast
            | Op::MemRefCast => {
                let used = operation
                    .results
                    .iter()
                    .any(|result| written.contains(result));
                written.extend(operation.operands.first().copied().filter(|_| used));
            }
            _ => {}
        }
    }
}
