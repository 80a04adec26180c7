//! The evaluator, which interprets computations instruction by instruction.
//!
//! It evaluates a computation in order and keeps each value until its last use. An operand used for
//! the last time is moved, not shared, so that an update in a loop works in place.

use crate::error::{Error, OpError, invalid};
use crate::perturb::{Directions, by_sums, by_ulps, hidden_nans, negate_hidden};
use crate::program::{Program, op_rounds};
use crate::value::Value;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tegula_arena::EntityRef;
use tegula_devices::{Communicator, HostQueues};
use tegula_ir::{
    ArrayShape, Binary, ComputationId, Dim, ElementType, InstructionId, Literal, Module, Op, Shape,
    Unary,
};
use tegula_limits::Stopped;

/// Options of an evaluation.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The seed with which the result of every operation that rounds is moved by up to an ulp; see
    /// the crate's documentation.
    pub perturb: Option<u64>,
    /// The most iterations of all while loops together; more are an error.
    pub max_iterations: Option<u64>,
    /// The most instructions that are evaluated; more are an error.
    pub max_instructions: Option<u64>,
    /// The most bytes of values that are still needed; more are an error.
    pub max_bytes: Option<u64>,
}

/// The deepest nesting of calls. The verifier forbids cycles; this limit protects the stack.
const MAX_DEPTH: usize = 200;

/// The last uses of the values of a computation's instructions.
struct Plan {
    /// For each instruction, by position: the position of its last user, `usize::MAX` for the root,
    /// or its own position if it has no user.
    last_use: Vec<usize>,
}

/// The state of one evaluation of a module.
pub(crate) struct Evaluator<'m> {
    pub(crate) module: &'m Module,
    pub(crate) options: Options,
    /// The position of every instruction in its computation.
    positions: Vec<usize>,
    plans: FxHashMap<ComputationId, Rc<Plan>>,
    programs: FxHashMap<ComputationId, Option<Rc<Program>>>,
    symbols: Vec<Option<i64>>,
    depth: usize,
    /// The number of operations perturbed so far.
    perturbed: u64,
    pub(crate) iterations: u64,
    /// The number of instructions evaluated so far.
    evaluated: u64,
    /// Bytes of the values that active computations keep.
    kept: u64,
    /// Results of discontinuous operations and decisions, if they are recorded.
    pub(crate) discrete: Option<Vec<(InstructionId, u64)>>,
    /// The connection to the other devices, if several run the program.
    pub(crate) communicator: Option<Arc<dyn Communicator>>,
    /// The host that the program can exchange arrays with.
    pub(crate) host: Option<Host>,
    /// The bytes that the memory limits leave for values.
    room: Option<u64>,
}

/// The connection to the host.
pub(crate) struct Host {
    pub(crate) queues: Arc<HostQueues>,
    /// How long `recv` waits.
    pub(crate) timeout: Duration,
}

impl<'m> Evaluator<'m> {
    pub(crate) fn new(module: &'m Module, options: Options) -> Self {
        let mut positions = vec![0; module.instructions.len()];
        for computation in module.computations.values() {
            for (position, id) in computation.instructions.iter().enumerate() {
                if let Some(slot) = positions.get_mut(id.index()) {
                    *slot = position;
                }
            }
        }
        Self {
            module,
            options,
            positions,
            plans: FxHashMap::default(),
            programs: FxHashMap::default(),
            symbols: vec![None; module.symbols.len()],
            depth: 0,
            perturbed: 0,
            iterations: 0,
            evaluated: 0,
            kept: 0,
            discrete: None,
            communicator: None,
            host: None,
            room: tegula_limits::room(),
        }
    }

    /// Evaluates the entry computation.
    pub(crate) fn run(&mut self, arguments: &[Value]) -> Result<Value, Error> {
        let module = self.module;
        let parameters = &module.entry_computation().parameters;
        if parameters.len() != arguments.len() {
            return Err(Error::Argument {
                index: arguments.len().min(parameters.len()),
                reason: format!(
                    "expected {} arguments, found {}",
                    parameters.len(),
                    arguments.len()
                ),
            });
        }
        for (index, (&parameter, argument)) in parameters.iter().zip(arguments).enumerate() {
            let shape = &module[parameter].shape;
            if !argument.matches(shape) {
                let reason = format!(
                    "its shape differs from that of parameter {}, {}",
                    module[parameter].name,
                    describe(shape)
                );
                return Err(Error::Argument { index, reason });
            }
            // Without resolved sizes, the arguments determine the value of each symbol.
            if module.sizes.sources.is_empty() {
                self.bind(shape, argument)
                    .map_err(|reason| Error::Argument { index, reason })?;
            }
        }
        self.guards(arguments)?;
        let entry = module.entry;
        let name = &module.entry_computation().name;
        self.computation(entry, arguments.to_vec())
            .map_err(|error| error.at(name, tegula_ir::Opcode::Call))
    }

    /// Evaluates a single instruction.
    pub(crate) fn run_instruction(
        &mut self,
        id: InstructionId,
        operands: Vec<Value>,
    ) -> Result<Value, Error> {
        let (name, opcode) = (&self.module[id].name, self.module[id].op.opcode());
        let stated = self.module[id].operands.len();
        let value = match operands.len() == stated {
            true => self.instruction(id, operands),
            false => Err(invalid(format!("expected {stated} operands"))),
        };
        value.map_err(|error| error.at(name, opcode))
    }

    /// Checks the program's conditions on its arguments' sizes.
    fn guards(&mut self, arguments: &[Value]) -> Result<(), Error> {
        let sizes = &self.module.sizes;
        if sizes.sources.is_empty() {
            return Ok(());
        }
        let leaves = arguments.iter().flat_map(Value::leaves);
        let shapes: Vec<&ArrayShape> = leaves.map(Literal::shape).collect();
        let values = sizes.bind(&self.module.symbols, &shapes);
        let values = values.map_err(|reason| Error::Sizes { reason })?;
        for source in &sizes.sources {
            let index = source.symbol.0 as usize;
            if let (Some(slot), Some(&value)) = (self.symbols.get_mut(index), values.get(index)) {
                *slot = Some(value);
            }
        }
        Ok(())
    }

    /// Binds symbolic dimensions to the sizes of an argument.
    fn bind(&mut self, shape: &Shape, argument: &Value) -> Result<(), String> {
        match (shape, argument) {
            (Shape::Tuple(shapes), Value::Tuple(elements)) => {
                let mut pairs = shapes.iter().zip(elements);
                pairs.try_for_each(|(shape, element)| self.bind(shape, element))
            }
            (Shape::Array(array), Value::Array(literal)) => {
                let mut pairs = array.dims.iter().zip(&literal.shape().dims);
                pairs.try_for_each(|(stated, actual)| match actual.as_static() {
                    Some(size) => self.bind_dim(stated, size),
                    None => Err("expected an array with known sizes".to_owned()),
                })
            }
            _ => Ok(()),
        }
    }

    fn bind_dim(&mut self, stated: &Dim, size: i64) -> Result<(), String> {
        let term = stated.term();
        let Some(index) = term.as_var().map(|var| var.0 as usize) else {
            return match self.eval_dim(stated) {
                Ok(expected) if expected == size => Ok(()),
                // A term over symbols that later parameters bind is not checked.
                Err(_) => Ok(()),
                Ok(expected) => Err(format!(
                    "expected a dimension of size {expected}, found {size}"
                )),
            };
        };
        let symbol = &self.module.symbols[..].get(index);
        let (Some(symbol), Some(slot)) = (symbol, self.symbols.get_mut(index)) else {
            return Err("its shape uses a symbol that the module does not declare".to_owned());
        };
        if matches!(*slot, Some(bound) if bound != size) {
            return Err(format!(
                "its value for symbol {} contradicts an earlier argument",
                symbol.name
            ));
        }
        if size < symbol.lower || size > symbol.upper {
            return Err(format!(
                "its value for symbol {}, {size}, is out of the symbol's bounds",
                symbol.name
            ));
        }
        *slot = Some(size);
        Ok(())
    }

    fn eval_dim(&self, dim: &Dim) -> Result<i64, OpError> {
        match dim {
            Dim::Static(size) => Ok(*size),
            Dim::Symbolic(term) | Dim::Bounded { size: term, .. } => term
                .eval(&|var| self.symbols.get(var.0 as usize).copied().flatten())
                .map_err(|error| invalid(format!("a size of the shape is unknown: {error}"))),
        }
    }

    /// The shape with all sizes resolved and without a layout.
    pub(crate) fn resolve(&self, shape: &Shape) -> Result<ArrayShape, OpError> {
        let array = shape.as_array();
        let array = array.ok_or_else(|| invalid("expected an array as the result"))?;
        let dims = array.dims.iter().map(|dim| self.eval_dim(dim));
        let dims: Vec<i64> = dims.collect::<Result<_, _>>()?;
        Ok(ArrayShape::new(array.element_type, &dims))
    }

    /// The compiled program of a computation that is called for each element, if it can be
    /// compiled.
    pub(crate) fn program(&mut self, id: ComputationId) -> Option<Rc<Program>> {
        let module = self.module;
        let compile = || Program::compile(module, id).map(Rc::new);
        self.programs.entry(id).or_insert_with(compile).clone()
    }

    fn plan(&mut self, id: ComputationId) -> Rc<Plan> {
        let (module, positions) = (self.module, &self.positions);
        let plan = self.plans.entry(id).or_insert_with(|| {
            let computation = &module[id];
            let mut last_use: Vec<usize> = (0..computation.instructions.len()).collect();
            for (position, &id) in computation.instructions.iter().enumerate() {
                for operand in &module[id].operands {
                    if let Some(last) = last_use.get_mut(positions[operand.index()]) {
                        *last = position.max(*last);
                    }
                }
            }
            if let Some(last) = last_use.get_mut(positions[computation.root.index()]) {
                *last = usize::MAX;
            }
            Rc::new(Plan { last_use })
        });
        Rc::clone(plan)
    }

    /// Evaluates a computation on arguments.
    pub(crate) fn computation(
        &mut self,
        id: ComputationId,
        arguments: Vec<Value>,
    ) -> Result<Value, OpError> {
        if self.depth >= MAX_DEPTH {
            return Err(OpError::Limit(format!(
                "calls are nested deeper than {MAX_DEPTH} levels"
            )));
        }
        self.depth += 1;
        let result = self.instructions(id, arguments);
        self.depth -= 1;
        result
    }

    fn instructions(&mut self, id: ComputationId, arguments: Vec<Value>) -> Result<Value, OpError> {
        let module = self.module;
        let plan = self.plan(id);
        let computation = &module[id];
        let mut arguments: Vec<Option<Value>> = arguments.into_iter().map(Some).collect();
        let mut values: Vec<Option<Value>> = vec![None; computation.instructions.len()];
        for (position, &id) in computation.instructions.iter().enumerate() {
            let instruction = &module[id];
            let at = |error: OpError| error.at(&instruction.name, instruction.op.opcode());
            let value = if let Op::Parameter(number) = instruction.op {
                let argument = arguments.get_mut(number as usize).and_then(Option::take);
                argument.ok_or_else(|| at(invalid("the argument for this parameter is missing")))?
            } else if plan.last_use[position] == position && can_be_left_out(&instruction.op) {
                continue;
            } else {
                let operands = self.operands(id, position, &plan, &mut values);
                operands
                    .and_then(|operands| self.instruction(id, operands))
                    .map_err(at)?
            };
            if !value.matches(&instruction.shape) {
                return Err(at(invalid("the computed value differs from the stated shape")).into());
            }
            if plan.last_use[position] != position {
                self.keep(&value).map_err(at)?;
                values[position] = Some(value);
            }
        }
        self.kept = values.iter().flatten().fold(self.kept, |kept, value| {
            kept.saturating_sub(value.byte_size())
        });
        let root = self.positions[computation.root.index()];
        let result = values.get_mut(root).and_then(Option::take);
        result.ok_or_else(|| invalid("expected a root instruction that belongs to its computation"))
    }

    /// Counts the bytes of a value that is still needed.
    fn keep(&mut self, value: &Value) -> Result<(), OpError> {
        self.kept = self.kept.saturating_add(value.byte_size());
        match self.options.max_bytes {
            Some(most) if self.kept > most => Err(OpError::Limit(format!(
                "the arrays that are live at the same time exceed {most} bytes"
            ))),
            _ => Ok(()),
        }
    }

    /// Fails if an array of this shape, together with the values kept, exceeds a memory limit.
    fn check_room(&self, shape: &Shape) -> Result<(), OpError> {
        let (Some(limit), Some(array)) = (self.room, shape.as_array()) else {
            return Ok(());
        };
        let wanted = array
            .byte_size()
            .and_then(|bytes| u64::try_from(bytes).ok());
        let wanted = wanted.unwrap_or(0);
        let used = self.kept;
        if used.saturating_add(wanted) > limit {
            return Err(OpError::Stopped(Stopped::Memory {
                wanted,
                used,
                limit,
            }));
        }
        Ok(())
    }

    /// Counts an instruction.
    fn step(&mut self) -> Result<(), OpError> {
        tegula_limits::check()?;
        self.evaluated += 1;
        match self.options.max_instructions {
            Some(most) if self.evaluated > most => Err(OpError::Limit(format!(
                "the evaluation exceeds {most} instructions; raise the limit with `--steps`"
            ))),
            _ => Ok(()),
        }
    }

    /// The operands of the instruction at a position; each is moved out if this is its last use.
    fn operands(
        &mut self,
        id: InstructionId,
        position: usize,
        plan: &Plan,
        values: &mut [Option<Value>],
    ) -> Result<Vec<Value>, OpError> {
        let operands = &self.module[id].operands;
        let mut taken = Vec::with_capacity(operands.len());
        for (i, operand) in operands.iter().enumerate() {
            let from = self.positions[operand.index()];
            let slot = values.get_mut(from);
            let slot = slot.ok_or_else(|| invalid("expected operands of the same computation"))?;
            let last = plan.last_use[from] == position && !operands[i + 1..].contains(operand);
            let value = if last { slot.take() } else { slot.clone() };
            let value = value
                .ok_or_else(|| invalid("expected operands that are defined before their use"))?;
            if last {
                self.kept = self.kept.saturating_sub(value.byte_size());
            }
            taken.push(value);
        }
        Ok(taken)
    }

    /// Evaluates one instruction, and perturbs and records its result if asked to.
    fn instruction(
        &mut self,
        id: InstructionId,
        mut operands: Vec<Value>,
    ) -> Result<Value, OpError> {
        self.step()?;
        let module = self.module;
        let op = &module[id].op;
        // A complex power is the exponential of a product, whose error acts like an error of the
        // exponent.
        if let (Op::Binary(Binary::Power), [_, exponent]) = (op, &mut operands[..])
            && is_complex(exponent)
        {
            self.perturb(exponent, true);
        }
        let hidden = match (self.options.perturb, module[id].shape.as_array()) {
            (Some(_), Some(array)) => hidden_nans(op, array.element_type, &operands),
            _ => Vec::new(),
        };
        self.check_room(&module[id].shape)?;
        let value = self.dispatch(id, operands);
        // If the run was stopped, the value or error has no meaning.
        tegula_limits::check()?;
        let mut value = value?;
        if let (Value::Array(zeros), false) = (&mut value, hidden.is_empty())
            && let Some(directions) = self.next_directions()
        {
            negate_hidden(zeros, &hidden, directions);
        }
        if self.options.perturb.is_some() {
            let rounds = (op_rounds(op) || rounds_inside(op)) && !is_exact_convert(module, id);
            if rounds || computes(op) {
                self.perturb(&mut value, rounds);
            }
        }
        if let Some(discrete) = &mut self.discrete
            && is_discrete(module, id)
        {
            discrete.push((id, digest(&value)));
        }
        Ok(value)
    }

    /// Records a decision that an instruction made by comparing, if decisions are recorded.
    pub(crate) fn note_choice(&mut self, id: InstructionId, choice: &impl Hash) {
        if let Some(discrete) = &mut self.discrete {
            discrete.push((id, FxBuildHasher.hash_one(choice)));
        }
    }

    pub(crate) fn next_directions(&mut self) -> Option<Directions> {
        let seed = self.options.perturb?;
        self.perturbed += 1;
        Some(Directions::new(seed, self.perturbed))
    }

    /// Perturbs every float of a value, if asked to. If the value was not rounded, or sums are
    /// settled in this run, only the signs of its NaNs change.
    pub(crate) fn perturb(&mut self, value: &mut Value, rounds: bool) {
        match value {
            Value::Array(literal) => match self.next_directions() {
                Some(directions) if rounds && !directions.settles => by_ulps(literal, directions),
                Some(directions) => by_ulps(literal, directions.of_nans()),
                None => {}
            },
            Value::Tuple(elements) => elements.iter_mut().for_each(|e| self.perturb(e, rounds)),
            Value::Token => {}
        }
    }

    /// Perturbs sums, if asked to, given the sums of the absolute terms.
    pub(crate) fn perturb_sums(
        &mut self,
        x: Literal,
        magnitudes: Option<&[f64]>,
        terms: usize,
    ) -> Result<Literal, OpError> {
        let Some(magnitudes) = magnitudes else {
            return Ok(x);
        };
        let Some(directions) = self.next_directions() else {
            return Ok(x);
        };
        let mut moved = by_sums(&x, magnitudes, terms, directions)?;
        let directions = self.next_directions().filter(|d| !d.settles);
        if let Some(directions) = directions {
            by_ulps(&mut moved, directions);
        }
        Ok(moved)
    }
}

fn is_complex(value: &Value) -> bool {
    matches!(value, Value::Array(literal) if literal.element_type().is_complex())
}

/// Whether an elementwise operation returns a NaN, perhaps a different one, where an operand is
/// NaN.
fn computes(op: &Op) -> bool {
    matches!(
        op,
        Op::Unary(_) | Op::Binary(_) | Op::Clamp | Op::Convert | Op::ReducePrecision { .. }
    )
}

/// Whether the floats of an operation that is not elementwise are perturbed as rounded results;
/// sums and calls are perturbed where they are evaluated.
fn rounds_inside(op: &Op) -> bool {
    matches!(
        op,
        Op::Cholesky { .. }
            | Op::TriangularSolve { .. }
            | Op::BatchNormTraining { .. }
            | Op::BatchNormInference { .. }
            | Op::BatchNormGrad { .. }
            | Op::CustomCall(_)
            | Op::AllReduce { .. }
            | Op::ReduceScatter { .. }
    )
}

/// Whether an instruction is a conversion without loss.
fn is_exact_convert(module: &Module, id: InstructionId) -> bool {
    let ty = |shape: &Shape| shape.as_array().map(|array| array.element_type);
    let types = module
        .operand_shape(id, 0)
        .and_then(ty)
        .zip(ty(&module[id].shape));
    let Some((from, to)) = types.filter(|_| module[id].op == Op::Convert) else {
        return false;
    };
    // A complex number is judged by the type of its parts.
    let format = |ty: ElementType| ty.complex_part().unwrap_or(ty).float_format();
    match (format(from), format(to)) {
        (Some(from), Some(to)) => {
            from.mantissa_bits <= to.mantissa_bits && from.exponent_bits <= to.exponent_bits
        }
        (None, Some(to)) => from == ElementType::Pred || from.bits() <= to.mantissa_bits,
        _ => false,
    }
}

/// Whether an instruction's result depends on floats discontinuously.
fn is_discrete(module: &Module, id: InstructionId) -> bool {
    let element_type = |shape: &Shape| shape.as_array().map(|array| array.element_type);
    let from = module.operand_shape(id, 0).and_then(element_type);
    if !from.is_some_and(|ty| ty.is_float() || ty.is_complex()) {
        return false;
    }
    match &module[id].op {
        Op::Compare { .. } | Op::Sort { .. } | Op::TopK { .. } => true,
        Op::Convert => !element_type(&module[id].shape).is_some_and(ElementType::is_float),
        Op::Unary(op) => matches!(
            op,
            Unary::Floor
                | Unary::Ceil
                | Unary::Sign
                | Unary::IsFinite
                | Unary::RoundNearestAfz
                | Unary::RoundNearestEven
        ),
        _ => false,
    }
}

/// A hash of the discrete part of a value: of its integers for a sort or top-k, and constant if it
/// has none.
fn digest(value: &Value) -> u64 {
    use std::hash::Hasher;
    let mut hasher = rustc_hash::FxHasher::default();
    let leaves = value.leaves();
    let single = leaves.len() == 1;
    for leaf in leaves {
        if single || !leaf.element_type().is_float() {
            hasher.write(leaf.bytes());
        }
    }
    hasher.finish()
}

/// Whether an operation is skipped if nothing uses its results: a custom call without a side
/// effect, which may have no meaning to the evaluator. The other targets remove it.
fn can_be_left_out(op: &Op) -> bool {
    matches!(op, Op::CustomCall(call) if !call.has_side_effect)
}

/// The text of a shape in error messages.
fn describe(shape: &Shape) -> String {
    match shape {
        Shape::Array(array) => {
            let size = |dim: &Dim| {
                dim.as_static()
                    .map_or("?".to_owned(), |size| size.to_string())
            };
            let dims: Vec<String> = array.dims.iter().map(size).collect();
            format!("{}[{}]", array.element_type, dims.join(","))
        }
        Shape::Tuple(elements) => {
            let elements: Vec<String> = elements.iter().map(describe).collect();
            format!("({})", elements.join(", "))
        }
        Shape::Token => "token[]".to_owned(),
        Shape::Opaque => "opaque[]".to_owned(),
        Shape::Buffer(inner) => format!("b({})", describe(inner)),
    }
}
