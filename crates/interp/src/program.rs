//! Compiled scalar computations, which are called for each element.
//!
//! The function of a reduce, the comparator of a sort and the combiner of a scatter are
//! computations over scalars, called as often as there are elements. A [`Program`] is such a
//! computation as a list of steps over registers of raw bits, executed by the same scalar functions
//! as all other operations. A computation with other operations (a `while`, for example) is
//! interpreted instead; a [`Callee`](crate::callee::Callee) is either of them.

use smallvec::SmallVec;
use tegula_ir::{
    Binary, Computation, ComputationId, Direction, ElementType, Instruction, InstructionId, Module,
    Op, Order, Shape, Unary,
};
use tegula_scalar as scalar;
use tegula_scalar::Bits;

type Register = u32;

/// One scalar operation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Unary(Unary, ElementType, Register),
    Binary(Binary, ElementType, Register, Register),
    Compare(Direction, Order, ElementType, Register, Register),
    Select(Register, Register, Register),
    Clamp(ElementType, Register, Register, Register),
    Convert(ElementType, ElementType, Register),
    ReducePrecision(ElementType, u32, u32, Register),
    StochasticConvert(ElementType, ElementType, Register, Register),
}

/// A scalar computation as steps over registers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Program {
    pub(crate) parameters: usize,
    /// The steps, each with the register it writes.
    steps: Vec<(Step, Register)>,
    /// The initial contents of the registers: constants, or 0.
    pub(crate) initial: Vec<u128>,
    results: Vec<Register>,
    /// Whether a step rounds a float.
    pub(crate) rounds: bool,
}

impl Program {
    /// Compiles a computation, if it consists of scalar steps alone.
    pub(crate) fn compile(module: &Module, id: ComputationId) -> Option<Self> {
        let mut builder = Builder {
            module,
            program: Self {
                parameters: module[id].parameters.len(),
                steps: Vec::new(),
                initial: Vec::new(),
                results: Vec::new(),
                rounds: false,
            },
        };
        let arguments: Vec<Registers> = (module[id].parameters.iter())
            .map(|&p| builder.fresh(&module[p].shape).map(Registers::One))
            .collect::<Option<_>>()?;
        let result = builder.computation(&module[id], &arguments, 0)?;
        result.flatten(&mut builder.program.results);
        Some(builder.program)
    }

    /// The operation, if the program is a single binary operation on its two parameters (in either
    /// order if it is commutative).
    pub(crate) fn as_binary(&self) -> Option<Binary> {
        match (self.steps.as_slice(), self.results.as_slice()) {
            (&[(Step::Binary(op, _, a, b), out)], &[result]) if result == out => {
                let commutes = matches!(
                    op,
                    Binary::Add
                        | Binary::And
                        | Binary::Maximum
                        | Binary::Minimum
                        | Binary::Multiply
                        | Binary::Or
                        | Binary::Xor
                );
                let in_order = (a, b) == (0, 1) || (commutes && (a, b) == (1, 0));
                (self.parameters == 2 && in_order).then_some(op)
            }
            _ => None,
        }
    }

    pub(crate) fn run(
        &self,
        registers: &mut [u128],
        arguments: &[u128],
    ) -> Option<SmallVec<[u128; 2]>> {
        registers
            .get_mut(..arguments.len())?
            .copy_from_slice(arguments);
        for &(step, out) in &self.steps {
            let r = |register: Register| registers[register as usize];
            let value = match step {
                Step::Unary(op, ty, x) => scalar::apply_unary(op, ty, r(x))?,
                Step::Binary(op, ty, a, b) => scalar::apply_binary(op, ty, r(a), r(b))?,
                Step::Compare(direction, order, ty, a, b) => {
                    scalar::apply_compare(direction, order, ty, r(a), r(b))?
                }
                Step::Select(p, a, b) => scalar::apply_select(r(p), r(a), r(b)),
                Step::Clamp(ty, low, x, high) => scalar::apply_clamp(ty, r(low), r(x), r(high))?,
                Step::Convert(from, to, x) => scalar::apply_convert(from, to, r(x)),
                Step::ReducePrecision(ty, exponent, mantissa, x) => {
                    scalar::apply_reduce_precision(ty, exponent, mantissa, r(x))?
                }
                Step::StochasticConvert(from, to, x, random) => {
                    scalar::apply_stochastic_convert(from, to, r(x), r(random))?
                }
            };
            registers[out as usize] = value;
        }
        Some(
            self.results
                .iter()
                .map(|&r| registers[r as usize])
                .collect(),
        )
    }
}

/// The registers that hold the value of an instruction.
#[derive(Clone, Debug)]
enum Registers {
    One(Register),
    Tuple(Vec<Registers>),
}

impl Registers {
    fn one(&self) -> Option<Register> {
        match self {
            Self::One(register) => Some(*register),
            Self::Tuple(_) => None,
        }
    }

    fn flatten(&self, registers: &mut Vec<Register>) {
        match self {
            Self::One(register) => registers.push(*register),
            Self::Tuple(elements) => elements.iter().for_each(|e| e.flatten(registers)),
        }
    }
}

struct Builder<'m> {
    module: &'m Module,
    program: Program,
}

/// The limits of compiled programs: larger functions are interpreted.
const MAX_STEPS: usize = 10_000;
const MAX_INLINE_DEPTH: usize = 20;

impl Builder<'_> {
    /// A new register for a scalar of this shape.
    fn fresh(&mut self, shape: &Shape) -> Option<Register> {
        scalar_type(shape)?;
        self.program.initial.push(0);
        Some(self.program.initial.len() as Register - 1)
    }

    fn computation(
        &mut self,
        computation: &Computation,
        arguments: &[Registers],
        depth: usize,
    ) -> Option<Registers> {
        if depth > MAX_INLINE_DEPTH {
            return None;
        }
        let mut places = rustc_hash::FxHashMap::<InstructionId, Registers>::default();
        for &id in &computation.instructions {
            let instruction = &self.module[id];
            let operands = (instruction.operands.iter())
                .map(|operand| places.get(operand).cloned())
                .collect::<Option<Vec<_>>>()?;
            let place = self.instruction(instruction, &operands, arguments, depth)?;
            places.insert(id, place);
            if self.program.steps.len() > MAX_STEPS {
                return None;
            }
        }
        places.remove(&computation.root)
    }

    fn instruction(
        &mut self,
        instruction: &Instruction,
        operands: &[Registers],
        arguments: &[Registers],
        depth: usize,
    ) -> Option<Registers> {
        match &instruction.op {
            Op::Parameter(number) => arguments.get(*number as usize).cloned(),
            Op::Tuple => Some(Registers::Tuple(operands.to_vec())),
            Op::GetTupleElement(index) => match operands.first()? {
                Registers::Tuple(elements) => elements.get(usize::try_from(*index).ok()?).cloned(),
                Registers::One(_) => None,
            },
            Op::Call { to_apply, .. }
            | Op::Fusion {
                calls: to_apply, ..
            } => {
                let callee = &self.module[*to_apply];
                self.computation(callee, operands, depth + 1)
            }
            Op::Constant(literals) => {
                let [literal] = literals.as_ref() else {
                    return None;
                };
                let register = self.fresh(&instruction.shape)?;
                *self.program.initial.last_mut()? = Bits::of(literal).get(0);
                Some(Registers::One(register))
            }
            _ => self.scalar_step(instruction, operands).map(Registers::One),
        }
    }

    fn scalar_step(
        &mut self,
        instruction: &Instruction,
        operands: &[Registers],
    ) -> Option<Register> {
        let to = scalar_type(&instruction.shape)?;
        let types: SmallVec<[ElementType; 3]> = (instruction.operands.iter())
            .map(|&operand| scalar_type(&self.module[operand].shape))
            .collect::<Option<_>>()?;
        let registers: SmallVec<[Register; 3]> =
            operands.iter().map(Registers::one).collect::<Option<_>>()?;
        let step = match (&instruction.op, registers.as_slice(), types.as_slice()) {
            (Op::Copy | Op::Reshape | Op::OptBarrier | Op::Broadcast(_), &[x], _) => {
                return Some(x);
            }
            (Op::Bitcast | Op::BitcastConvert, &[x], &[from])
                if from.bits() == to.bits() && to.bits() >= 8 =>
            {
                return Some(x);
            }
            (&Op::Unary(op), &[x], &[ty]) => Step::Unary(op, ty, x),
            (&Op::Binary(op), &[a, b], &[ty, _]) => Step::Binary(op, ty, a, b),
            (&Op::Compare { direction, order }, &[a, b], &[ty, _]) => {
                Step::Compare(direction, order, ty, a, b)
            }
            (Op::Select, &[p, a, b], _) => Step::Select(p, a, b),
            (Op::Clamp, &[low, x, high], &[_, ty, _]) => Step::Clamp(ty, low, x, high),
            (Op::Convert, &[x], &[from]) => Step::Convert(from, to, x),
            (Op::StochasticConvert, &[x, random], &[from, _]) => {
                Step::StochasticConvert(from, to, x, random)
            }
            (
                &Op::ReducePrecision {
                    exponent_bits,
                    mantissa_bits,
                },
                &[x],
                &[ty],
            ) => Step::ReducePrecision(ty, exponent_bits, mantissa_bits, x),
            _ => return None,
        };
        self.program.rounds |= (to.is_float() || to.is_complex()) && op_rounds(&instruction.op);
        let out = self.fresh(&instruction.shape)?;
        self.program.steps.push((step, out));
        Some(out)
    }
}

/// The element type of a scalar's shape.
fn scalar_type(shape: &Shape) -> Option<ElementType> {
    let array = shape.as_array().filter(|array| array.rank() == 0)?;
    Some(array.element_type)
}

/// Whether an operation on floats may round, so that two correct implementations may differ in the
/// last place.
pub(crate) fn op_rounds(op: &Op) -> bool {
    match op {
        Op::Unary(unary) => !matches!(
            unary,
            Unary::Abs
                | Unary::Negate
                | Unary::Sign
                | Unary::Ceil
                | Unary::Floor
                | Unary::RoundNearestAfz
                | Unary::RoundNearestEven
                | Unary::Real
                | Unary::Imag
                | Unary::IsFinite
        ),
        Op::Binary(binary) => {
            !matches!(binary, Binary::Maximum | Binary::Minimum | Binary::Complex)
        }
        Op::Convert | Op::ReducePrecision { .. } => true,
        _ => false,
    }
}
