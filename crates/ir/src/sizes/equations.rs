//! Collects the equations between sizes that the operations of a program require.

use super::values::Values;
use super::{SizeSource, copies};
use crate::shape_functions::{Symbolic, shape_of};
use crate::{
    ArrayShape, ComputationId, Dim, Error, Instruction, InstructionId, Module, Op, Shape, ShapeOf,
};
use rustc_hash::FxHashSet;
use std::fmt::Display;
use tegula_expr::{Cmp, Symbols, Term, Var, Watched};

/// A relation between two sizes that a program requires.
pub(super) struct Equation {
    pub(super) op: Cmp,
    pub(super) left: Term,
    pub(super) right: Term,
    /// The instruction and the rule that require it, in words.
    pub(super) what: String,
    /// The instruction that requires it, if any.
    pub(super) at: Option<InstructionId>,
    /// Whether it relates the sizes of a call to those of the called computation.
    pub(super) of_call: bool,
}

/// The sources of the symbols that are sizes of entry parameters: every dimension that has one, in
/// order.
pub(super) fn sources(module: &Module) -> Vec<SizeSource> {
    let mut sources: Vec<SizeSource> = Vec::new();
    let mut parameter = 0;
    for &id in &module.entry_computation().parameters {
        module[id].shape.for_each_leaf(&mut |leaf| {
            let Shape::Array(array) = leaf else { return };
            for (dimension, dim) in array.dims.iter().enumerate() {
                let symbol = match dim {
                    Dim::Static(_) => None,
                    _ => dim.term().as_var(),
                };
                if let Some(symbol) = symbol {
                    sources.push(SizeSource {
                        symbol,
                        parameter,
                        dimension,
                    });
                }
            }
            parameter += 1;
        });
    }
    sources
}

/// The equations that give symbols of inputs constant values, by name.
pub(super) fn fixed(
    module: &Module,
    sources: &[SizeSource],
    fixed: &[(&str, i64)],
) -> Result<Vec<Equation>, Error> {
    let name = |s: &SizeSource| module.symbols.get(s.symbol.0 as usize).map(|s| &*s.name);
    let mut equations = Vec::with_capacity(fixed.len());
    for &(wanted, size) in fixed {
        let Some(source) = sources.iter().find(|s| name(s) == Some(wanted)) else {
            let mut known: Vec<&str> = Vec::new();
            for name in sources.iter().filter_map(name) {
                if !known.contains(&name) {
                    known.push(name);
                }
            }
            let help = match known.as_slice() {
                [] => "every size of its inputs is fixed".to_owned(),
                _ => format!("its open sizes are {}", known.join(", ")),
            };
            let message = format!("`{wanted}` is not an open size of the program's inputs");
            return Err(Error::input(message).with_help(help));
        };
        if size < 0 {
            let message = format!("`{wanted}` cannot be {size}: expected a non-negative size");
            return Err(Error::input(message));
        }
        equations.push(Equation {
            op: Cmp::Eq,
            left: Term::var(source.symbol),
            right: Term::constant(size),
            what: format!("the program was specialised to {wanted} = {size}"),
            at: None,
            of_call: false,
        });
    }
    Ok(equations)
}

/// The equations that the module's instructions require.
pub(super) fn equations(module: &Module) -> Result<Vec<Equation>, Error> {
    let mut all = Vec::new();
    let open_callees: FxHashSet<ComputationId> = (module.computations.iter())
        .filter(|(_, computation)| {
            let mut ends = computation.parameters.iter().chain([&computation.root]);
            ends.any(|&id| is_open(&module[id].shape))
        })
        .map(|(id, _)| id)
        .collect();
    // The entry is the last computation. It goes first, because users know its sizes.
    for computation in module.computations.values().rev() {
        for &id in &computation.instructions {
            let instruction = &module[id];
            let open = is_open(&instruction.shape)
                || instruction
                    .operands
                    .iter()
                    .any(|&o| is_open(&module[o].shape))
                || (instruction.op.called_computations().iter())
                    .any(|callee| open_callees.contains(callee));
            if open {
                let mut collector = Collector {
                    module,
                    id,
                    instruction,
                    equations: &mut all,
                    of_call: false,
                };
                collector.instruction()?;
            }
        }
    }
    Ok(all)
}

fn is_open(shape: &Shape) -> bool {
    let mut open = false;
    shape.for_each_leaf(&mut |leaf| {
        let array = leaf.as_array();
        open |= array.is_some_and(|a| a.dims.iter().any(|d| !matches!(d, Dim::Static(_))));
    });
    open
}

struct Collector<'a> {
    module: &'a Module,
    id: InstructionId,
    instruction: &'a Instruction,
    equations: &'a mut Vec<Equation>,
    of_call: bool,
}

impl Collector<'_> {
    fn require(&mut self, op: Cmp, left: &Term, right: &Term, what: impl Display) {
        if left != right || op == Cmp::Lt || op == Cmp::Ne {
            self.equations.push(Equation {
                op,
                left: left.clone(),
                right: right.clone(),
                what: format!("`{}`: {what}", self.instruction.name),
                at: Some(self.id),
                of_call: self.of_call,
            });
        }
    }

    fn instruction(&mut self) -> Result<(), Error> {
        let module = self.module;
        let operands: Vec<&Shape> = (self.instruction.operands.iter())
            .map(|&operand| &module[operand].shape)
            .collect();
        let mut required: Vec<Required> = Vec::new();
        let mut provider = Watched {
            provider: Symbols(Symbolic(&operands)),
            required: |op, a: &Term, b: &Term, what: &dyn Display| {
                // Most sizes are the same term already and need no message.
                if a != b || !matches!(op, Cmp::Eq | Cmp::Le) {
                    required.push((op, a.clone(), b.clone(), what.to_string()));
                }
            },
        };
        let (op, stated) = (&self.instruction.op, &self.instruction.shape);
        let inferred = shape_of(&mut provider, module, op, &operands, Some(stated))?;
        for (op, left, right, what) in required {
            self.require(op, &left, &right, what);
        }
        self.of_call = copies::is_call(op);
        self.stated(&inferred, stated);
        self.of_call = false;
        stated.for_each_leaf(&mut |leaf| {
            for dim in leaf.as_array().map_or(&[][..], |array| &array.dims) {
                if let Dim::Bounded { bound, size } = dim {
                    let bound = Term::constant(*bound);
                    self.require(Cmp::Le, size, &bound, "a dynamic size and its bound");
                }
            }
        });
        self.of_call = copies::is_call(op);
        self.called(&operands);
        self.of_call = false;
        match (
            op,
            operands.first().and_then(|s| s.as_array()),
            stated.as_array(),
        ) {
            (Op::Broadcast(dimensions), Some(from), Some(to)) => {
                self.broadcast(dimensions, from, to);
            }
            (Op::Reshape | Op::Bitcast, Some(from), Some(to))
                if from.element_type == to.element_type =>
            {
                self.require(Cmp::Eq, &count(from), &count(to), "numbers of elements");
            }
            (Op::SetDimensionSize(dimension), Some(from), Some(to)) => {
                let dimension = usize::try_from(*dimension).ok();
                let of = |array: &ArrayShape| dimension.and_then(|d| array.dims.get(d)).cloned();
                if let (Some(whole), Some(size)) = (of(from), of(to)) {
                    self.computed(1, Some(&size));
                    let what = "the size that a dimension is set to";
                    self.require(Cmp::Le, &size.term(), &whole.term(), what);
                    self.require(Cmp::Le, &Term::constant(0), &size.term(), what);
                }
            }
            (Op::DynamicReshape, Some(from), Some(to)) => {
                self.require(Cmp::Eq, &count(from), &count(to), "numbers of elements");
                for (number, size) in to.dims.iter().enumerate() {
                    self.computed(1 + number, Some(size));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Requires that the stated sizes are those that the shape function computes.
    fn stated(&mut self, inferred: &ShapeOf<Term>, stated: &Shape) {
        match (inferred, stated) {
            (ShapeOf::Array { dims, .. }, Shape::Array(array)) => {
                for (dimension, (size, dim)) in dims.iter().zip(&array.dims).enumerate() {
                    let what = format_args!(
                        "dimension {dimension} of the result and the size that is stated"
                    );
                    self.require(Cmp::Eq, size, &dim.term(), what);
                }
            }
            (ShapeOf::Tuple(elements), Shape::Tuple(shapes)) => {
                for (element, shape) in elements.iter().zip(shapes) {
                    self.stated(element, shape);
                }
            }
            (ShapeOf::Same(shape), stated) => {
                self.equal(shape, stated, "the result and the shape that is stated");
            }
            _ => {}
        }
    }

    /// Requires that two shapes are equal.
    fn equal(&mut self, a: &Shape, b: &Shape, what: &str) {
        match (a, b) {
            (Shape::Array(a), Shape::Array(b)) => {
                for (dimension, (x, y)) in a.dims.iter().zip(&b.dims).enumerate() {
                    let what = format_args!("dimension {dimension} of {what}");
                    self.require(Cmp::Eq, &x.term(), &y.term(), what);
                }
            }
            (Shape::Tuple(a), Shape::Tuple(b)) => {
                for (a, b) in a.iter().zip(b) {
                    self.equal(a, b, what);
                }
            }
            (Shape::Buffer(a), Shape::Buffer(b)) => self.equal(a, b, what),
            _ => {}
        }
    }

    /// Requires that a size is the value of an operand, if that is computed from sizes.
    fn computed(&mut self, operand: usize, size: Option<&Dim>) {
        let (Some(&id), Some(size)) = (self.instruction.operands.get(operand), size) else {
            return;
        };
        let mut values = Values::new(self.module);
        let Some(value) = values.of(id) else {
            return;
        };
        for (less, more) in values.fits {
            self.require(Cmp::Le, &less, &more, "a size that the program computes");
        }
        let what = format_args!("the size that operand {operand} gives and the result's");
        self.require(Cmp::Eq, &value, &size.term(), what);
    }

    fn broadcast(&mut self, dimensions: &[i64], from: &ArrayShape, to: &ArrayShape) {
        for (dimension, &place) in dimensions.iter().enumerate() {
            let target = usize::try_from(place).ok().and_then(|p| to.dims.get(p));
            if let (Some(size), Some(target)) = (from.dims.get(dimension), target) {
                let what = format_args!(
                    "sizes of operand dimension {dimension} and result dimension {place}"
                );
                self.require(Cmp::Eq, &size.term(), &target.term(), what);
            }
        }
    }

    /// Requires that a called computation has its caller's operand and result shapes.
    fn called(&mut self, operands: &[&Shape]) {
        let module = self.module;
        let stated = &self.instruction.shape;
        let parameter = |callee: ComputationId, number: usize| {
            let id = module[callee].parameters.get(number);
            id.map(|&id| &module[id].shape)
        };
        let result = |callee: ComputationId| &module[module[callee].root].shape;
        match &self.instruction.op {
            Op::Call {
                to_apply: callee, ..
            }
            | Op::Fusion { calls: callee, .. }
            | Op::AsyncStart { calls: callee, .. } => {
                for (number, operand) in operands.iter().enumerate() {
                    if let Some(parameter) = parameter(*callee, number) {
                        self.equal(
                            parameter,
                            operand,
                            "a called computation's parameter and its argument",
                        );
                    }
                }
            }
            Op::While { condition, body } => {
                let what = "a loop's state before and after an iteration";
                for callee in [*condition, *body] {
                    if let (Some(parameter), Some(operand)) =
                        (parameter(callee, 0), operands.first())
                    {
                        self.equal(parameter, operand, what);
                    }
                }
                self.equal(result(*body), stated, what);
            }
            Op::Conditional { branches, .. } => {
                for (number, &branch) in branches.iter().enumerate() {
                    if let (Some(parameter), Some(operand)) =
                        (parameter(branch, 0), operands.get(number + 1))
                    {
                        self.equal(parameter, operand, "a branch's parameter and its argument");
                    }
                    self.equal(
                        result(branch),
                        stated,
                        "a branch's result and the conditional's",
                    );
                }
            }
            _ => {}
        }
    }
}

fn count(array: &ArrayShape) -> Term {
    let one = Term::constant(1);
    array
        .dims
        .iter()
        .fold(one, |product, dim| product.mul(&dim.term()))
}

/// A requirement of a shape function: the comparison, both sides, and what they are in words.
type Required = (Cmp, Term, Term, String);

/// The variable of a symbol, by number.
pub(super) fn symbol(number: usize) -> Var {
    Var(u32::try_from(number).unwrap_or(u32::MAX))
}
