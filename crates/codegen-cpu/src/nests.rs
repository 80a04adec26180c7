//! Loops of small steps, and loops of such loops, as one function.
//!
//! A turn of a recurrence over single numbers takes a few nanoseconds, and so does the call of
//! each kernel in it. Here a loop with all that is inside it becomes a function of its own:
//! kernels without a domain are part of it, others are called, and copies are loads and
//! stores. The function gets a table of addresses: of everything that it touches itself, and
//! the arguments of each kernel that it calls, one after the other.
//!
//! Memories that a loop exchanges change their addresses from turn to turn: such loops are
//! walked ([`crate::turns`]), but may have loops inside that are functions.

use crate::error::Error;
use crate::jit::Pieces;
use crate::lower::{Imports, lower_in_place};
use crate::schedule::{Action, Location};
use crate::vector::{Choice, choose};
use cranelift_codegen::ir::{FuncRef, InstBuilder, MemFlagsData, Value, types};
use cranelift_frontend::FunctionBuilder;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_fusion::Kernel;
use tegula_layout::plan::{KernelId, Plan};

/// A loop's function: its number, and what lies at the addresses that it is given.
#[derive(Debug)]
pub(crate) struct Nest {
    /// Which of the code's loops.
    pub function: usize,
    /// The places, in the order of the table.
    pub table: Vec<Location>,
}

/// Steps of a loop, inner loops with theirs, beyond which calls are a small part of a turn.
const MAX_STEPS: usize = 64;
/// Scalars of a kernel that becomes part of the function.
const MAX_SCALARS: usize = 64;
/// Bytes that are copied by loads and stores.
const MAX_COPY: usize = 64;

/// What is done, by places in the table.
enum Step<'a> {
    /// A kernel without a domain.
    Kernel {
        kernel: &'a Kernel,
        vectors: Box<Choice>,
        args: SmallVec<[usize; 8]>,
    },
    /// A function of a kernel, with the first of its arguments, and the part of its domain.
    Call {
        kernel: usize,
        piece: usize,
        first: usize,
        part: [i64; 2],
    },
    Copy {
        from: usize,
        to: usize,
        bytes: usize,
    },
    Loop(Loop<'a>),
}

/// A loop whose condition leaves a predicate.
pub(crate) struct Loop<'a> {
    condition: Vec<Step<'a>>,
    predicate: usize,
    body: Vec<Step<'a>>,
}

/// Makes the steps of a loop, and the table.
pub(crate) struct Maker<'a> {
    plan: &'a Plan,
    /// Of each kernel its functions' parts of the outermost dimension.
    pieces: &'a [Pieces],
    table: Vec<Location>,
    known: FxHashMap<Location, usize>,
    steps: usize,
}

impl<'a> Maker<'a> {
    pub(crate) fn new(plan: &'a Plan, pieces: &'a [Pieces]) -> Self {
        Self {
            plan,
            pieces,
            table: Vec::new(),
            known: FxHashMap::default(),
            steps: 0,
        }
    }

    /// A loop and the table of its addresses; `None` if it does something that a function
    /// cannot.
    pub(crate) fn make(mut self, action: &Action) -> Option<(Loop<'a>, Vec<Location>)> {
        let made = self.while_loop(action)?;
        Some((made, self.table))
    }

    fn while_loop(&mut self, action: &Action) -> Option<Loop<'a>> {
        let Action::While {
            condition,
            predicate,
            body,
            exchanges,
            ..
        } = action
        else {
            return None;
        };
        if !exchanges.is_empty() {
            return None;
        }
        let condition = self.steps(condition)?;
        Some(Loop {
            condition,
            predicate: self.place(*predicate),
            body: self.steps(body)?,
        })
    }

    fn steps(&mut self, actions: &[Action]) -> Option<Vec<Step<'a>>> {
        self.steps += actions.len();
        if self.steps > MAX_STEPS {
            return None;
        }
        let mut steps = Vec::with_capacity(actions.len());
        for action in actions {
            self.step(action, &mut steps)?;
        }
        Some(steps)
    }

    fn step(&mut self, action: &Action, steps: &mut Vec<Step<'a>>) -> Option<()> {
        match action {
            Action::Kernel {
                kernel,
                args,
                extent,
                parts: 0..2,
                ..
            } => self.kernel(*kernel, args, *extent, steps),
            Action::Copy { from, to, bytes } if *bytes <= MAX_COPY => steps.push(Step::Copy {
                from: self.place(*from),
                to: self.place(*to),
                bytes: *bytes,
            }),
            Action::While { .. } => steps.push(Step::Loop(self.while_loop(action)?)),
            _ => return None,
        }
        Some(())
    }

    fn kernel(&mut self, number: usize, args: &[Location], extent: i64, steps: &mut Vec<Step<'a>>) {
        let kernel = &self.plan.kernels[KernelId::from_u32(number as u32)];
        if let Some(vectors) = scalar(kernel) {
            let args = args.iter().map(|&arg| self.place(arg)).collect();
            return steps.push(Step::Kernel {
                kernel,
                vectors,
                args,
            });
        }
        let first = self.table.len();
        self.table.extend(args);
        for (piece, (_, part)) in self.pieces[number].iter().enumerate() {
            let part = match part {
                Some(part) => part.bounds([0, extent]),
                None => [0, extent],
            };
            steps.push(Step::Call {
                kernel: number,
                piece,
                first,
                part,
            });
        }
    }

    /// The place of an address in the table.
    fn place(&mut self, location: Location) -> usize {
        let table = &mut self.table;
        *self.known.entry(location).or_insert_with(|| {
            table.push(location);
            table.len() - 1
        })
    }
}

/// Nothing but single numbers, if that is what a kernel is.
fn scalar(kernel: &Kernel) -> Option<Box<Choice>> {
    // Arrays of a kernel's own take the stack only while it is called.
    let has_arrays = kernel.given() < kernel.params.len();
    if !kernel.domain.is_empty() || has_arrays || kernel.scalars.len() > MAX_SCALARS {
        return None;
    }
    let vectors = Box::new(choose(kernel));
    (vectors.loops.is_empty() && vectors.domain.is_none()).then_some(vectors)
}

/// Emits loops.
struct Emitter<'e, 'f> {
    builder: &'e mut FunctionBuilder<'f>,
    /// Functions of kernels' pieces, as the function calls them.
    functions: FxHashMap<(usize, usize), FuncRef>,
    /// Where the table lies.
    table: Value,
    /// Addresses that were loaded from it.
    addresses: FxHashMap<usize, Value>,
}

/// The function that `builder` builds: the loop, with its addresses loaded before.
/// `functions` are those that it [calls](Loop::calls).
pub(crate) fn emit(
    nest: &Loop<'_>,
    functions: FxHashMap<(usize, usize), FuncRef>,
    builder: &mut FunctionBuilder<'_>,
    imports: &mut dyn Imports,
) -> Result<(), Error> {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let table = builder.block_params(entry)[0];
    let mut addresses = FxHashMap::default();
    let mut places = Vec::new();
    nest.places(&mut places);
    for place in places {
        let flags = MemFlagsData::trusted().with_readonly();
        let load = || {
            builder
                .ins()
                .load(types::I64, flags, table, 8 * place as i32)
        };
        addresses.entry(place).or_insert_with(load);
    }
    let mut emitter = Emitter {
        builder,
        functions,
        table,
        addresses,
    };
    emitter.nest(nest, imports)?;
    builder.ins().return_(&[]);
    builder.seal_all_blocks();
    Ok(())
}

impl Loop<'_> {
    /// The pieces of kernels that are called.
    pub(crate) fn calls(&self, calls: &mut Vec<(usize, usize)>) {
        for step in self.condition.iter().chain(&self.body) {
            match step {
                Step::Call { kernel, piece, .. } => calls.push((*kernel, *piece)),
                Step::Loop(inner) => inner.calls(calls),
                Step::Kernel { .. } | Step::Copy { .. } => {}
            }
        }
    }

    /// The addresses that the function uses itself.
    fn places(&self, places: &mut Vec<usize>) {
        places.push(self.predicate);
        for step in self.condition.iter().chain(&self.body) {
            match step {
                Step::Call { .. } => {}
                Step::Loop(inner) => inner.places(places),
                Step::Kernel { args, .. } => places.extend(args),
                Step::Copy { from, to, .. } => places.extend([from, to]),
            }
        }
    }
}

impl Emitter<'_, '_> {
    fn nest(&mut self, nest: &Loop<'_>, imports: &mut dyn Imports) -> Result<(), Error> {
        let [header, inside, exit] = [(); 3].map(|()| self.builder.create_block());
        self.builder.ins().jump(header, &[]);
        self.builder.switch_to_block(header);
        self.steps(&nest.condition, imports)?;
        let predicate = self.address(nest.predicate)?;
        let flags = MemFlagsData::trusted();
        let goes_on = self.builder.ins().load(types::I8, flags, predicate, 0);
        self.builder.ins().brif(goes_on, inside, &[], exit, &[]);
        self.builder.switch_to_block(inside);
        self.steps(&nest.body, imports)?;
        self.builder.ins().jump(header, &[]);
        self.builder.switch_to_block(exit);
        Ok(())
    }

    fn steps(&mut self, steps: &[Step<'_>], imports: &mut dyn Imports) -> Result<(), Error> {
        for step in steps {
            match step {
                Step::Kernel {
                    kernel,
                    vectors,
                    args,
                } => {
                    let bases = args.iter().map(|&arg| self.address(arg));
                    let bases: Vec<Value> = bases.collect::<Result<_, _>>()?;
                    lower_in_place(kernel, vectors, bases, self.builder, imports)?;
                }
                Step::Call {
                    kernel,
                    piece,
                    first,
                    part,
                } => {
                    let function = self.functions.get(&(*kernel, *piece)).copied();
                    let function = function.ok_or_else(|| Error::Bug("a call".to_owned()))?;
                    let first = 8 * *first as i64;
                    let args = self.builder.ins().iadd_imm_s(self.table, first);
                    let [begin, end] = part.map(|at| self.builder.ins().iconst(types::I64, at));
                    self.builder.ins().call(function, &[args, begin, end]);
                }
                Step::Copy { from, to, bytes } => self.copy(*from, *to, *bytes)?,
                Step::Loop(inner) => self.nest(inner, imports)?,
            }
        }
        Ok(())
    }

    /// Everything is loaded before it is stored: the two may overlap.
    fn copy(&mut self, from: usize, to: usize, bytes: usize) -> Result<(), Error> {
        let (from, to) = (self.address(from)?, self.address(to)?);
        let flags = MemFlagsData::trusted();
        let mut parts: SmallVec<[(Value, i32); 8]> = SmallVec::new();
        let mut at = 0;
        for ty in [types::I64, types::I32, types::I16, types::I8] {
            let size = ty.bytes() as usize;
            while bytes - at >= size {
                let value = self.builder.ins().load(ty, flags, from, at as i32);
                parts.push((value, at as i32));
                at += size;
            }
        }
        for (value, at) in parts {
            self.builder.ins().store(flags, value, to, at);
        }
        Ok(())
    }

    fn address(&self, place: usize) -> Result<Value, Error> {
        let known = self.addresses.get(&place).copied();
        known.ok_or_else(|| Error::Bug("an address of a loop".to_owned()))
    }
}
