//! Computations of reductions that select one of two candidates, such as that of `argmax`.
//!
//! A candidate consists of one element of each reduced array, for example the largest number and
//! its position. Such a computation only compares elements of the same array and selects. Its
//! algebraic laws can therefore be decided by trying all cases: three candidates have at most three
//! different elements of an array, and only the results of comparisons between these matter.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cmp::Ordering;
use tegula_ir::{
    Binary, Computation, ComputationId, Direction, ElementType, InstructionId, Literal, Module, Op,
    Order, Unary,
};

/// The maximum number of cases that are tried.
const MAX_CASES: usize = 100_000;

/// The known laws of a computation that selects candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Whether the order of the candidates does not matter.
    pub(crate) commutes: bool,
}

/// The laws of the computation of a reduction of `arrays` arrays, if parts of the arrays may be
/// reduced separately, each with the same initial candidate, and their results in order. [`None`]
/// for other computations, or if they do not have this law.
pub(crate) fn selection(module: &Module, id: ComputationId, arrays: usize) -> Option<Selection> {
    let picks = Picks::new(module, &module[id], arrays)?;
    let all = picks.candidates()?;
    let mut commutes = true;
    for a in &all {
        if picks.of(a, a) != *a {
            return None;
        }
        for b in &all {
            let both = picks.of(a, b);
            commutes &= both == picks.of(b, a);
            // A part that begins with the initial candidate again must not change the result. Zeros
            // of either sign are considered equal, as in comparisons.
            if !picks.are_alike(&picks.of(&both, a), &both) {
                return None;
            }
            for c in &all {
                if picks.of(&both, c) != picks.of(a, &picks.of(b, c)) {
                    return None;
                }
            }
        }
    }
    Some(Selection { commutes })
}

/// A representative value of an element, as far as comparisons distinguish values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sample {
    Number(i8),
    MinusZero,
    Nan,
}

impl Sample {
    /// All representatives for elements of a type; three of them are ordered numbers.
    fn all(ty: ElementType) -> Option<&'static [Self]> {
        use Sample::{MinusZero, Nan, Number};
        match ty {
            ElementType::Pred => Some(&[Number(0), Number(1)]),
            ty if ty.is_integer() => Some(&[Number(0), Number(1), Number(2)]),
            ty if ty.is_float() => Some(&[Number(-1), MinusZero, Number(0), Number(1), Nan]),
            _ => None,
        }
    }

    /// The numeric value; `None` for a NaN.
    fn number(self) -> Option<i8> {
        match self {
            Self::Number(number) => Some(number),
            Self::MinusZero => Some(0),
            Self::Nan => None,
        }
    }

    /// The position in the total order.
    fn rank(self) -> i8 {
        match self {
            Self::Number(number) if number < 0 => number - 1,
            Self::MinusZero => -1,
            Self::Number(number) => number,
            Self::Nan => i8::MAX,
        }
    }

    fn compared(self, other: Self, order: Order) -> Option<Ordering> {
        match order {
            Order::Total => Some(self.rank().cmp(&other.rank())),
            Order::Partial => Some(self.number()?.cmp(&other.number()?)),
        }
    }

    fn larger(self, other: Self) -> Self {
        match self.rank() < other.rank() {
            true => other,
            false => self,
        }
    }

    fn smaller(self, other: Self) -> Self {
        match self == Self::Nan || other != Self::Nan && self.rank() < other.rank() {
            true => self,
            false => other,
        }
    }
}

type Candidate = SmallVec<[Sample; 4]>;

/// A step of the computation: the result of an instruction, from those of earlier ones.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The element of this array of a candidate: of the second one if true, otherwise of the first.
    Element(bool, usize),
    Truth(bool),
    Compare(Direction, Order, usize, usize),
    Logic(Binary, usize, usize),
    Not(usize),
    Select(usize, usize, usize),
    Larger(usize, usize),
    Smaller(usize, usize),
}

/// The kind of scalar that an instruction returns: an element of an array, or a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Element(usize),
    Truth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    Sample(Sample),
    Truth(bool),
}

/// A computation that selects candidates.
struct Picks {
    /// The element type of each array.
    types: SmallVec<[ElementType; 4]>,
    steps: Vec<Step>,
    /// For each array, the step that returns its element.
    results: SmallVec<[usize; 4]>,
}

impl Picks {
    fn new(module: &Module, computation: &Computation, arrays: usize) -> Option<Self> {
        let mut found = Self {
            types: SmallVec::new(),
            steps: Vec::new(),
            results: SmallVec::new(),
        };
        let mut kinds = Vec::new();
        let mut known: FxHashMap<InstructionId, usize> = FxHashMap::default();
        for (number, id) in computation.parameters.iter().enumerate() {
            let array = number % arrays.max(1);
            let shape = module[*id].shape.as_array().filter(|own| own.rank() == 0)?;
            if number < arrays {
                found.types.push(shape.element_type);
            }
            known.insert(*id, found.steps.len());
            found.steps.push(Step::Element(number >= arrays, array));
            kinds.push(Kind::Element(array));
        }
        let root = &module[computation.root];
        let is_tuple = matches!(root.op, Op::Tuple);
        for id in &computation.instructions {
            if known.contains_key(id) || is_tuple && *id == computation.root {
                continue;
            }
            let (step, kind) = step(module, *id, &known, &kinds)?;
            known.insert(*id, found.steps.len());
            found.steps.push(step);
            kinds.push(kind);
        }
        let own = [computation.root];
        let results = if is_tuple {
            &root.operands[..]
        } else {
            &own[..]
        };
        for (array, id) in results.iter().enumerate() {
            let at = *known.get(id)?;
            (kinds.get(at) == Some(&Kind::Element(array))).then_some(())?;
            found.results.push(at);
        }
        let fits = found.results.len() == arrays && computation.parameters.len() == 2 * arrays;
        fits.then_some(found)
    }

    /// All distinct candidates; [`None`] if triples of them have too many cases.
    fn candidates(&self) -> Option<Vec<Candidate>> {
        let mut all = vec![Candidate::new()];
        for ty in &self.types {
            let samples = Sample::all(*ty)?;
            let longer = all.iter().flat_map(|candidate| {
                samples.iter().map(|sample| {
                    let mut longer = candidate.clone();
                    longer.push(*sample);
                    longer
                })
            });
            all = longer.collect();
            if all.len().checked_pow(3)? > MAX_CASES {
                return None;
            }
        }
        Some(all)
    }

    /// The candidate that the computation returns for two candidates.
    fn of(&self, a: &Candidate, b: &Candidate) -> Candidate {
        let mut given: SmallVec<[Given; 16]> = SmallVec::new();
        for step in &self.steps {
            let truth = |at: usize| given.get(at) == Some(&Given::Truth(true));
            let sample = |at: usize| match given.get(at) {
                Some(Given::Sample(sample)) => *sample,
                _ => Sample::Nan,
            };
            let next = match *step {
                Step::Element(second, array) => {
                    let candidate = if second { b } else { a };
                    Given::Sample(candidate.get(array).copied().unwrap_or(Sample::Nan))
                }
                Step::Truth(truth) => Given::Truth(truth),
                Step::Compare(direction, order, a, b) => {
                    Given::Truth(holds(direction, sample(a).compared(sample(b), order)))
                }
                Step::Logic(op, a, b) => Given::Truth(match op {
                    Binary::And => truth(a) & truth(b),
                    Binary::Or => truth(a) | truth(b),
                    _ => truth(a) ^ truth(b),
                }),
                Step::Not(a) => Given::Truth(!truth(a)),
                Step::Select(which, a, b) => {
                    let picked = if truth(which) { a } else { b };
                    given.get(picked).copied().unwrap_or(Given::Truth(false))
                }
                Step::Larger(a, b) => Given::Sample(sample(a).larger(sample(b))),
                Step::Smaller(a, b) => Given::Sample(sample(a).smaller(sample(b))),
            };
            given.push(next);
        }
        let sample = |at: &usize| match given.get(*at) {
            Some(Given::Sample(sample)) => *sample,
            _ => Sample::Nan,
        };
        self.results.iter().map(sample).collect()
    }

    /// Whether candidates are the same except for the signs of zeros.
    fn are_alike(&self, a: &Candidate, b: &Candidate) -> bool {
        let totally = self
            .steps
            .iter()
            .any(|step| matches!(step, Step::Compare(_, Order::Total, ..)));
        let pairs = a.iter().zip(b);
        let mut alike = pairs
            .map(|(a, b)| a == b || !totally && a.number().is_some() && a.number() == b.number());
        alike.all(|alike| alike)
    }
}

/// The step for an instruction, if it compares or selects.
fn step(
    module: &Module,
    id: InstructionId,
    known: &FxHashMap<InstructionId, usize>,
    kinds: &[Kind],
) -> Option<(Step, Kind)> {
    let instruction = &module[id];
    let operands: Option<SmallVec<[usize; 3]>> = instruction
        .operands
        .iter()
        .map(|operand| known.get(operand).copied())
        .collect();
    let operands = operands?;
    let kind = |at: usize| kinds.get(at).copied();
    let alike = |a: usize, b: usize| kind(a).filter(|own| Some(*own) == kind(b));
    let elements = |a: usize, b: usize| alike(a, b).filter(|kind| *kind != Kind::Truth);
    Some(match (&instruction.op, &operands[..]) {
        (Op::Constant(literals), []) => (Step::Truth(truth(literals.first()?)?), Kind::Truth),
        (Op::Compare { direction, order }, &[a, b]) => {
            elements(a, b)?;
            (Step::Compare(*direction, *order, a, b), Kind::Truth)
        }
        (Op::Binary(op @ (Binary::And | Binary::Or | Binary::Xor)), &[a, b]) => {
            alike(a, b).filter(|kind| *kind == Kind::Truth)?;
            (Step::Logic(*op, a, b), Kind::Truth)
        }
        (Op::Unary(Unary::Not), &[a]) => {
            kind(a).filter(|kind| *kind == Kind::Truth)?;
            (Step::Not(a), Kind::Truth)
        }
        (Op::Select, &[which, a, b]) => {
            kind(which).filter(|kind| *kind == Kind::Truth)?;
            (Step::Select(which, a, b), alike(a, b)?)
        }
        (Op::Binary(Binary::Maximum), &[a, b]) => (Step::Larger(a, b), elements(a, b)?),
        (Op::Binary(Binary::Minimum), &[a, b]) => (Step::Smaller(a, b), elements(a, b)?),
        _ => return None,
    })
}

/// The value of a constant predicate.
fn truth(literal: &Literal) -> Option<bool> {
    let is_truth = literal.element_type() == ElementType::Pred && literal.shape().rank() == 0;
    is_truth.then(|| literal.bytes().first().is_some_and(|byte| *byte != 0))
}

fn holds(direction: Direction, found: Option<Ordering>) -> bool {
    match direction {
        Direction::Eq => found == Some(Ordering::Equal),
        Direction::Ne => found != Some(Ordering::Equal),
        Direction::Ge => found.is_some_and(Ordering::is_ge),
        Direction::Gt => found == Some(Ordering::Greater),
        Direction::Le => found.is_some_and(Ordering::is_le),
        Direction::Lt => found == Some(Ordering::Less),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The laws of a computation on a number and its position; `text` computes `x` and `k` from `a`
    /// and `i`, `b` and `j`.
    fn of(ty: &str, text: &str) -> Option<Selection> {
        let text = format!(
            "HloModule laws
            pick {{ a = {ty}[] parameter(0)
                i = s32[] parameter(1)
                b = {ty}[] parameter(2)
                j = s32[] parameter(3)
                {text}
                ROOT r = ({ty}[], s32[]) tuple(x, k) }}
            ENTRY e {{ v = {ty}[4] parameter(0)
                p = s32[4] iota(), iota_dimension=0
                f = {ty}[] parameter(1)
                z = s32[] constant(0)
                ROOT m = ({ty}[], s32[]) reduce(v, p, f, z), dimensions={{0}}, to_apply=pick }}"
        );
        let module = tegula_ir::parse_module(&text).expect("a module");
        let id = module[module.entry_computation().root]
            .op
            .called_computations();
        selection(&module, id[0], 2)
    }

    #[test]
    fn laws_are_found() {
        let first = "p = pred[] compare(a, b), direction=GE
            x = TY[] select(p, a, b)
            k = s32[] select(p, i, j)";
        let law = |ty: &str, text: &str| of(ty, &text.replace("TY", ty)).map(|own| own.commutes);
        assert_eq!(law("s32", first), Some(false));
        // A NaN is skipped on one side and kept on the other, so the operation is not associative.
        assert_eq!(law("f32", first), None);
        let smallest_place = "n = pred[] compare(a, a), direction=NE
            g = pred[] compare(a, b), direction=GT
            p = pred[] or(n, g)
            e = pred[] compare(a, b), direction=EQ
            l = pred[] compare(i, j), direction=LT
            t = pred[] and(e, l)
            q = pred[] or(p, t)
            x = TY[] select(p, a, b)
            k = s32[] select(q, i, j)";
        assert_eq!(law("f32", smallest_place), Some(false));
        assert_eq!(law("u8", smallest_place), Some(true));
        // This selects the last of equal numbers, so the initial candidate of a later part would
        // win.
        let last = first.replace("GE", "GT");
        assert_eq!(law("s32", &last), None);
        let sum = "x = TY[] add(a, b)
            k = s32[] add(i, j)";
        assert_eq!(law("f32", sum), None);
        // The smaller number and the larger position may be from different candidates.
        let apart = "x = TY[] minimum(a, b)
            k = s32[] maximum(i, j)";
        assert_eq!(law("f32", apart), Some(true));
        let wrong = "p = pred[] compare(a, b), direction=LT
            x = TY[] minimum(a, b)
            k = s32[] select(p, j, i)";
        assert_eq!(law("s32", wrong), None);
    }
}
