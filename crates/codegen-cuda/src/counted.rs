//! Finds loops with a known trip count: a state starts at a constant, changes by a
//! constant in each iteration, and is compared with a constant.
//!
//! In a plan, the loop condition must be one kernel of one element that compares the state
//! with a constant. The body must end by copying a new value to the state, which one
//! kernel of one element computes. The last copy to the state before the loop must be of a
//! constant. The state must be an integer.

use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, Direction, ElementType, Scalar};
use tegula_plan::{Place, Plan, Step, ValueId};
use tegula_scalar::{wrap_signed, wrap_unsigned};

/// Loops with more iterations than this are not counted: the search simulates each
/// iteration.
const MOST: u64 = 1 << 24;

/// The trip count of a loop; `before` are the steps before it.
pub(crate) fn iterations(
    plan: &Plan,
    before: &[Step],
    condition: &[Step],
    predicate: ValueId,
    body: &[Step],
) -> Option<u64> {
    let [Step::Kernel { kernel, args }] = condition else {
        return None;
    };
    let kernel = &plan.kernels[*kernel];
    let mut written = kernel.params.iter().filter(|p| p.access != Access::Read);
    // The kernel must write nothing but the predicate.
    if written.nth(1).is_some() {
        return None;
    }
    let test = Scalars::of(kernel, args)?;
    let Value::Compare(direction, left, right) = test.written(predicate)? else {
        return None;
    };
    let (state, bound, direction) = match (*left, *right) {
        (Operand::State(state), Operand::Number(bound)) => (state, bound, *direction),
        (Operand::Number(bound), Operand::State(state)) => (state, bound, flipped(*direction)),
        _ => return None,
    };
    let ty = plan.values[state].shape.element_type;
    let step = step(plan, body, state)?;
    let start = start(plan, before, state)?;
    let wrapped = |x: i64| match ty.is_signed() {
        true => wrap_signed(x, ty.bits()),
        false => wrap_unsigned(x.cast_unsigned(), ty.bits()).cast_signed(),
    };
    // Not all values of `u64` fit the `i64` used here.
    if !ty.is_integer() || ty == ElementType::U64 {
        return None;
    }
    let mut at = wrapped(start);
    for count in 0..=MOST {
        if !holds(direction, at, bound) {
            return Some(count);
        }
        at = wrapped(at.wrapping_add(step));
    }
    None
}

fn holds(direction: Direction, a: i64, b: i64) -> bool {
    match direction {
        Direction::Eq => a == b,
        Direction::Ne => a != b,
        Direction::Lt => a < b,
        Direction::Le => a <= b,
        Direction::Gt => a > b,
        Direction::Ge => a >= b,
    }
}

fn flipped(direction: Direction) -> Direction {
    match direction {
        Direction::Lt => Direction::Gt,
        Direction::Le => Direction::Ge,
        Direction::Gt => Direction::Lt,
        Direction::Ge => Direction::Le,
        other => other,
    }
}

/// The constant that the body adds to a state in each iteration; `None` if it changes the
/// state in any other way.
fn step(plan: &Plan, body: &[Step], state: ValueId) -> Option<i64> {
    let mut next = None;
    for step in body {
        // Loops and branches in the body could also write the state.
        let writes = match step {
            Step::Copy { to, .. } => *to == state,
            Step::Kernel { kernel, args } => {
                let params = plan.kernels[*kernel].params.iter().zip(args);
                let mut written = params.filter(|(p, _)| p.access != Access::Read);
                written.any(|(_, &value)| value == state)
            }
            Step::Library { results, .. } => results.contains(&state),
            Step::While { .. } | Step::Conditional { .. } | Step::Strips { .. } => {
                writes_inside(step, state)
            }
        };
        match step {
            Step::Copy { from, .. } if writes && next.is_none() => next = Some(*from),
            _ if writes => return None,
            _ => {}
        }
    }
    let (kernel, args) = writer(plan, body, next?)?;
    match Scalars::of(kernel, args)?.written(next?)? {
        Value::Sum(Operand::State(own), Operand::Number(step))
        | Value::Sum(Operand::Number(step), Operand::State(own))
            if *own == state =>
        {
            Some(*step)
        }
        Value::Difference(Operand::State(own), Operand::Number(step)) if *own == state => {
            step.checked_neg()
        }
        _ => None,
    }
}

fn writes_inside(step: &Step, state: ValueId) -> bool {
    match step {
        Step::Copy { to, .. } => *to == state,
        Step::Kernel { args, .. } => args.contains(&state),
        Step::Library { results, .. } => results.contains(&state),
        Step::While { .. } | Step::Conditional { .. } | Step::Strips { .. } => {
            let mut inside = step.blocks().into_iter().flatten();
            inside.any(|step| writes_inside(step, state))
        }
    }
}

/// The constant value of a state before the loop.
fn start(plan: &Plan, before: &[Step], state: ValueId) -> Option<i64> {
    let from = before.iter().rev().find_map(|step| match step {
        Step::Copy { from, to } if *to == state => Some(*from),
        _ => None,
    })?;
    if let Place::Constant(number) = plan.buffers[plan.values[from].buffer].place {
        let literal = plan.constants.get(number)?;
        return match literal.scalar(0)? {
            Scalar::Int(value) => Some(value),
            _ => None,
        };
    }
    let (kernel, args) = writer(plan, before, from)?;
    match Scalars::of(kernel, args)?.written(from)? {
        Value::Operand(Operand::Number(value)) => Some(*value),
        _ => None,
    }
}

/// The kernel that writes a value, if exactly one of the steps does.
fn writer<'a>(
    plan: &'a Plan,
    steps: &'a [Step],
    value: ValueId,
) -> Option<(&'a Kernel, &'a [ValueId])> {
    let mut writers = steps.iter().filter_map(|step| match step {
        Step::Kernel { kernel, args } => {
            let kernel = &plan.kernels[*kernel];
            let params = kernel.params.iter().zip(args);
            let mut written = params.filter(|(p, _)| p.access != Access::Read);
            written
                .any(|(_, &own)| own == value)
                .then_some((kernel, &args[..]))
        }
        _ => None,
    });
    let writer = writers.next()?;
    writers.next().is_none().then_some(writer)
}

/// An operand of a scalar operation in a kernel of one element.
#[derive(Clone, Copy)]
enum Operand {
    Number(i64),
    State(ValueId),
}

#[derive(Clone, Copy)]
enum Value {
    Operand(Operand),
    Sum(Operand, Operand),
    Difference(Operand, Operand),
    Compare(Direction, Operand, Operand),
}

/// The scalars of a kernel of one element, and its stores.
struct Scalars {
    known: Vec<(ScalarId, Value)>,
    stores: Vec<(ValueId, ScalarId)>,
}

impl Scalars {
    fn of(kernel: &Kernel, args: &[ValueId]) -> Option<Self> {
        if !kernel.domain.is_empty() {
            return None;
        }
        let mut scalars = Self {
            known: Vec::new(),
            stores: Vec::new(),
        };
        for statement in &kernel.body.statements {
            match statement {
                Statement::Compute {
                    result,
                    op,
                    operands,
                } => {
                    let ty = kernel.scalars.get(*result)?;
                    if let Some(value) = scalars.value(op, ty, operands) {
                        scalars.known.push((*result, value));
                    }
                }
                Statement::Load {
                    result,
                    param,
                    index,
                } if index.iter().all(|at| at.as_constant() == Some(0)) => {
                    let state = Operand::State(*args.get(*param)?);
                    scalars.known.push((*result, Value::Operand(state)));
                }
                Statement::Store { param, value, .. } => {
                    scalars.stores.push((*args.get(*param)?, *value));
                }
                _ => return None,
            }
        }
        Some(scalars)
    }

    fn operand(&self, scalar: ScalarId) -> Option<Operand> {
        match self.find(scalar)? {
            Value::Operand(operand) => Some(*operand),
            _ => None,
        }
    }

    fn find(&self, scalar: ScalarId) -> Option<&Value> {
        let mut known = self.known.iter();
        known.find_map(|(own, value)| (*own == scalar).then_some(value))
    }

    fn value(&self, op: &ScalarOp, ty: ElementType, operands: &[ScalarId]) -> Option<Value> {
        let both = || {
            Some((
                self.operand(*operands.first()?)?,
                self.operand(*operands.get(1)?)?,
            ))
        };
        Some(match op {
            ScalarOp::Constant(bits) if ty.is_integer() => {
                Value::Operand(Operand::Number(match ty.is_signed() {
                    true => wrap_signed(*bits as i64, ty.bits()),
                    false => wrap_unsigned(*bits as u64, ty.bits()).cast_signed(),
                }))
            }
            ScalarOp::Binary(Binary::Add) => both().map(|(a, b)| Value::Sum(a, b))?,
            ScalarOp::Binary(Binary::Subtract) => both().map(|(a, b)| Value::Difference(a, b))?,
            ScalarOp::Compare(direction, _) => {
                both().map(|(a, b)| Value::Compare(*direction, a, b))?
            }
            _ => return None,
        })
    }

    /// The value that the kernel stores to an array, if it stores exactly once.
    fn written(&self, value: ValueId) -> Option<&Value> {
        let mut stores = self.stores.iter().filter(|(to, _)| *to == value);
        let (_, scalar) = stores.next()?;
        let one = stores.next().is_none();
        self.find(*scalar).filter(|_| one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tegula_plan::parse_plan;

    /// The trip count of a loop over a state of type `ty` that starts at 3, with these
    /// statements for its condition and its step.
    fn count(ty: &str, test: &str, step: &str) -> Option<u64> {
        let text = format!(
            "plan \"counted\" arena 1024 {{
  b0 = arena 0 bytes 8
  b1 = arena 256 bytes 8
  b2 = arena 512 bytes 1
  b3 = output 0 bytes 8
  x0 = {ty}[] in b0
  x1 = {ty}[] in b0
  x2 = pred[] in b2
  x3 = {ty}[] in b1
  x4 = {ty}[] in b3
  k0 = kernel(write {ty}[]) {{
    v0:{ty} = constant 0x3
    store 0[] = v0
  }}
  k1 = kernel(write pred[], read {ty}[]) {{
    v0:{ty} = load 1[]
    {test}
    store 0[] = v2
  }}
  k2 = kernel(write {ty}[], read {ty}[]) {{
    v0:{ty} = load 1[]
    {step}
    store 0[] = v2
  }}
  parameters()
  results(x4)
  run k0(x0)
  copy x0 -> x1
  while {{
    run k1(x2, x1)
  }} x2 {{
    run k2(x3, x1)
    copy x3 -> x1
  }}
  copy x1 -> x4
}}
"
        );
        let plan = parse_plan(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let at = plan
            .steps
            .iter()
            .position(|s| matches!(s, Step::While { .. }));
        let (before, rest) = plan.steps.split_at(at.expect("a loop"));
        let Step::While {
            condition,
            predicate,
            body,
        } = &rest[0]
        else {
            panic!("a loop");
        };
        iterations(&plan, before, condition, *predicate, body)
    }

    #[test]
    fn loops_that_count_are_counted() {
        let less = "v1:s32 = constant 0x25\n    v2:pred = compare LT partial v0, v1";
        let one = "v1:s32 = constant 0x1\n    v2:s32 = add v0, v1";
        assert_eq!(count("s32", less, one), Some(34));
        let four = "v1:s32 = constant 0x4\n    v2:s32 = add v1, v0";
        assert_eq!(count("s32", less, four), Some(9));
        let bound_first = "v1:s32 = constant 0x25\n    v2:pred = compare GE partial v1, v0";
        assert_eq!(count("s32", bound_first, one), Some(35));
        let down = "v1:s32 = constant 0x2\n    v2:s32 = subtract v0, v1";
        let positive = "v1:s32 = constant 0x0\n    v2:pred = compare GT partial v0, v1";
        assert_eq!(count("s32", positive, down), Some(2));
        let never = "v1:s32 = constant 0x3\n    v2:pred = compare NE partial v0, v1";
        assert_eq!(count("s32", never, one), Some(0));
        // Unsigned arithmetic wraps around from 255 to 0.
        let zero = "v1:u8 = constant 0x0\n    v2:pred = compare NE partial v0, v1";
        let byte = "v1:u8 = constant 0x1\n    v2:u8 = add v0, v1";
        assert_eq!(count("u8", zero, byte), Some(253));
    }

    #[test]
    fn loops_that_do_something_else_are_not_counted() {
        let less = "v1:s32 = constant 0x25\n    v2:pred = compare LT partial v0, v1";
        let twice = "v1:s32 = constant 0x2\n    v2:s32 = multiply v0, v1";
        assert_eq!(count("s32", less, twice), None);
        let own = "v1:s32 = add v0, v0\n    v2:s32 = add v0, v1";
        assert_eq!(count("s32", less, own), None);
        let same = "v1:s32 = add v0, v0\n    v2:pred = compare LT partial v0, v1";
        let one = "v1:s32 = constant 0x1\n    v2:s32 = add v0, v1";
        assert_eq!(count("s32", same, one), None);
        // This loop does not terminate.
        let none = "v1:s32 = constant 0x0\n    v2:s32 = add v0, v1";
        assert_eq!(count("s32", less, none), None);
        let halves = "v1:f32 = constant 0x42000000\n    v2:pred = compare LT partial v0, v1";
        let up = "v1:f32 = constant 0x3f800000\n    v2:f32 = add v0, v1";
        assert_eq!(count("f32", halves, up), None);
    }
}
