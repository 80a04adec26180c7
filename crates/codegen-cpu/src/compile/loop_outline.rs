//! Loop outlining: compiles a loop of small steps, with the loops inside it, to one function.
//!
//! An iteration of a recurrence over a few numbers takes a few nanoseconds, and so does the call of
//! each kernel in it. This pass compiles such a loop, with everything inside it, to a function:
//! kernels of few points are [unrolled](crate::transform::full_unroll) into it, others are called,
//! copies are loads and stores, and conditionals are branches. Elements that are only accessed at
//! constant places are [promoted](crate::clif::mem2reg) to variables. The function gets a table of
//! addresses: those of everything that it accesses itself, then the arguments of each kernel that
//! it calls, one after the other. In place of the part of a domain it gets the address of the run's
//! stop flag, which each iteration of a loop reads. A loop with a kernel that reads the flag itself
//! is not outlined.
//!
//! Loops that exchange buffers have addresses that change between iterations: they are walked
//! ([`crate::runtime::pre_resolved_loop`]), but loops inside them may be outlined.

mod emit;
mod liveness;

use super::Pieces;
use crate::clif::lower::looks;
use crate::clif::mem2reg::{Element, Touch, elements, offset_of};
use crate::clif::types::stored_types;
use crate::program::ir::{Action, Location};
use crate::simd::mathlib::calls_function;
use crate::transform::full_unroll::fully_unrolled;
use crate::vectorize::select_loops::VectorPlan;
use crate::vectorize::select_loops::select_loops;
use cranelift_codegen::ir::{Type, types};
pub(crate) use emit::emit;
use liveness::is_read_after;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_expr::Term;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, Param, Statement};
use tegula_plan::{KernelId, Plan};

/// The maximum number of a loop's steps, including those of inner loops: with more, calls are a
/// small part of an iteration.
const MAX_STEPS: usize = 512;
/// The maximum number of scalars of a kernel with loops that is inlined into the function.
const MAX_SCALARS: usize = 64;
/// The maximum number of statements of an unrolled kernel that is inlined. A call costs as much as
/// about fifty statements, but is vectorised.
const MAX_STATEMENTS: usize = 256;
/// The maximum number of statements of all unrolled kernels of a function: more take longer to
/// compile than they save.
const MAX_IN_ALL: usize = 2048;
/// The maximum number of bytes that are copied by loads and stores.
const MAX_COPY: usize = 64;

/// A step of an outlined loop; locations are indices into the table.
enum Step {
    /// An inlined kernel without a domain.
    Kernel {
        kernel: Box<Kernel>,
        vectors: Box<VectorPlan>,
        args: SmallVec<[usize; 8]>,
    },
    /// Calls a function of a kernel: with the table index of its first argument, and the part of
    /// the domain.
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
    /// Executes one of several blocks, as [`Action::Conditional`] does.
    Branch {
        selector: usize,
        is_pred: bool,
        branches: Vec<Vec<Step>>,
    },
    Loop(Loop),
}

/// A loop whose condition writes a predicate.
pub(crate) struct Loop {
    condition: Vec<Step>,
    predicate: usize,
    body: Vec<Step>,
}

/// Builds the steps of a loop, and the table.
pub(crate) struct Maker<'a> {
    plan: &'a Plan,
    /// For each kernel, its functions and their parts of the outermost dimension.
    pieces: &'a [Pieces],
    table: Vec<Location>,
    known: FxHashMap<Location, usize>,
    steps: usize,
    statements: usize,
    /// The number of enclosing loops.
    depth: u32,
    touches: Vec<Touch>,
}

/// An outlined loop.
pub(crate) struct Made {
    pub looped: Loop,
    /// The table of its addresses.
    pub table: Vec<Location>,
    /// The elements that are kept in registers.
    pub promoted: Vec<Promoted>,
}

/// An element that is kept in a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promoted {
    pub element: Element,
    /// Whether code after the loop may read the element from memory.
    pub stored: bool,
}

impl<'a> Maker<'a> {
    pub(crate) fn new(plan: &'a Plan, pieces: &'a [Pieces]) -> Self {
        Self {
            plan,
            pieces,
            table: Vec::new(),
            known: FxHashMap::default(),
            steps: 0,
            statements: 0,
            depth: 0,
            touches: Vec::new(),
        }
    }

    /// Outlines a loop; `None` if it does something that a function cannot do. `after` are the
    /// actions that follow it, if they are known.
    pub(crate) fn make(mut self, action: &Action, after: Option<&[Action]>) -> Option<Made> {
        let looped = self.while_loop(action)?;
        let promoted = elements(&self.touches).into_iter().map(|element| Promoted {
            element,
            stored: element.written && is_read_after(self.plan, after, &element),
        });
        Some(Made {
            looped,
            promoted: promoted.collect(),
            table: self.table,
        })
    }

    fn while_loop(&mut self, action: &Action) -> Option<Loop> {
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
        self.depth += 1;
        let condition = self.steps(condition)?;
        self.element(*predicate, types::I8, false);
        let body = self.steps(body)?;
        self.depth -= 1;
        Some(Loop {
            condition,
            predicate: self.place(*predicate),
            body,
        })
    }

    fn steps(&mut self, actions: &[Action]) -> Option<Vec<Step>> {
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

    fn step(&mut self, action: &Action, steps: &mut Vec<Step>) -> Option<()> {
        match action {
            Action::Kernel {
                kernel,
                args,
                extent,
                parts: 0..2,
                ..
            } => self.kernel(*kernel, args, *extent, steps)?,
            Action::Copy { from, to, bytes } => {
                self.touches.push(Touch::Copy {
                    from: *from,
                    to: *to,
                    bytes: *bytes,
                });
                steps.push(Step::Copy {
                    from: self.place(*from),
                    to: self.place(*to),
                    bytes: *bytes,
                });
            }
            Action::Conditional {
                selector,
                is_pred,
                branches,
            } => {
                let ty = if *is_pred { types::I8 } else { types::I32 };
                self.element(*selector, ty, false);
                let branches = branches.iter().map(|branch| self.steps(branch));
                let branches = branches.collect::<Option<_>>()?;
                steps.push(Step::Branch {
                    selector: self.place(*selector),
                    is_pred: *is_pred,
                    branches,
                });
            }
            Action::While { .. } => steps.push(Step::Loop(self.while_loop(action)?)),
            _ => return None,
        }
        Some(())
    }

    fn kernel(
        &mut self,
        number: usize,
        args: &[Location],
        extent: i64,
        steps: &mut Vec<Step>,
    ) -> Option<()> {
        let kernel = &self.plan.kernels[KernelId::from_u32(number as u32)];
        if looks(kernel) {
            return None;
        }
        let sizes: Option<Vec<usize>> = kernel.params.iter().map(bytes_of).collect();
        let sizes = sizes?;
        if let Some((kernel, vectors)) = self.in_place(kernel) {
            self.touched_by(&kernel, &kernel.body, args, &sizes);
            let args = args.iter().map(|&arg| self.place(arg)).collect();
            steps.push(Step::Kernel {
                kernel,
                vectors,
                args,
            });
            return Some(());
        }
        for (&at, &bytes) in args.iter().zip(&sizes) {
            self.touches.push(Touch::Bytes { at, bytes });
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
        Some(())
    }

    /// An equivalent kernel without a domain, if it is small enough to be inlined.
    fn in_place(&mut self, kernel: &Kernel) -> Option<(Box<Kernel>, Box<VectorPlan>)> {
        // Local arrays of a called kernel only use the stack during the call.
        let has_arrays = kernel.given() < kernel.params.len();
        if has_arrays || self.statements > MAX_IN_ALL {
            return None;
        }
        // A vectorised kernel computes several functions at once.
        let has_lanes = !kernel.domain.is_empty() && kernel.body.any(|s| calls_function(kernel, s));
        if !has_lanes && let Some(kernel) = fully_unrolled(kernel, MAX_STATEMENTS) {
            self.statements += kernel.body.statements.len();
            return Some((Box::new(kernel), Box::default()));
        }
        if !kernel.domain.is_empty() || kernel.scalars.len() > MAX_SCALARS {
            return None;
        }
        let vectors = Box::new(select_loops(kernel));
        let is_scalar = vectors.loops.is_empty() && vectors.domain.is_none();
        is_scalar.then(|| (Box::new(kernel.clone()), vectors))
    }

    /// Records the memory accesses of a kernel without a domain.
    fn touched_by(&mut self, kernel: &Kernel, block: &Block, args: &[Location], sizes: &[usize]) {
        for statement in &block.statements {
            let (param, index, writes) = match statement {
                Statement::Load { param, index, .. } => (*param, index, false),
                Statement::Store { param, index, .. } => (*param, index, true),
                Statement::If {
                    then, otherwise, ..
                } => {
                    self.touched_by(kernel, then, args, sizes);
                    self.touched_by(kernel, otherwise, args, sizes);
                    continue;
                }
                Statement::Loop { body, .. } => {
                    self.touched_by(kernel, body, args, sizes);
                    continue;
                }
                Statement::Compute { .. } | Statement::Bind { .. } => continue,
            };
            let (Some(&at), Some(declared)) = (args.get(param), kernel.params.get(param)) else {
                continue;
            };
            match offset_of(kernel, param, index) {
                Some(offset) => {
                    let mut at = Location {
                        offset: at.offset + offset,
                        ..at
                    };
                    for ty in stored_types(declared.element_type) {
                        self.element(at, ty, writes);
                        at.offset += ty.bytes() as usize;
                    }
                }
                None => self.touches.push(Touch::Bytes {
                    at,
                    bytes: sizes[param],
                }),
            }
        }
    }

    fn element(&mut self, at: Location, ty: Type, writes: bool) {
        let depth = self.depth;
        self.touches.push(Touch::Element {
            at,
            ty,
            writes,
            depth,
        });
    }

    /// The index of an address in the table.
    fn place(&mut self, location: Location) -> usize {
        let table = &mut self.table;
        *self.known.entry(location).or_insert_with(|| {
            table.push(location);
            table.len() - 1
        })
    }
}

/// The bytes of an array, if they are constant.
pub(crate) fn bytes_of(param: &Param) -> Option<usize> {
    let mut dims = param.dims.iter().map(Term::as_constant);
    let elements = dims.try_fold(1i64, |n, dim| n.checked_mul(dim?))?;
    let elements = usize::try_from(elements).ok()?;
    elements.checked_mul(param.element_type.storage_bytes())
}
