//! Constant folding: evaluates operations on small constants at compile time.
//!
//! An unrolled loop contains sums of its counter and one, and slices of small tables at constant
//! positions: JAX's random numbers read their rotations in this way. Folded, they become immediates
//! in the generated code; otherwise, each would be a kernel, or a load per element.
//!
//! Folded are operations on integers and truth values, and those float operations that round alike
//! on every target: moves, sums, products, quotients, comparisons. A result is never larger than
//! its largest operand.

use crate::program::{Def, Node, NodeId, NodeKind, Program, Region, ValueId};
use tegula_ir::{ArrayShape, Binary, ElementType, Literal, Module, Op, Unary};
use tegula_scalar::{
    Bits, BitsMut, apply_binary, apply_clamp, apply_compare, apply_convert, apply_select,
    apply_unary,
};

/// The most elements of a constant that is folded: a few cache lines.
const MAX_ELEMENTS: usize = 64;

/// Replaces the results of operations on small constants by constants.
pub(crate) fn fold_constants(module: &Module, program: &mut Program) {
    let mut entry = std::mem::take(&mut program.entry);
    region(module, program, &mut entry);
    program.entry = entry;
}

fn region(module: &Module, program: &mut Program, around: &mut Region) {
    around.nodes.retain(|&id| {
        let mut kind = std::mem::replace(&mut program.nodes[id].kind, NodeKind::Op);
        match &mut kind {
            NodeKind::Op | NodeKind::Contraction(_) => {}
            NodeKind::While {
                condition, body, ..
            } => [condition, body]
                .into_iter()
                .for_each(|inner| region(module, program, inner)),
            NodeKind::Conditional { branches } => branches
                .iter_mut()
                .for_each(|inner| region(module, program, inner)),
        }
        program.nodes[id].kind = kind;
        let Some((result, literal)) = folded(module, program, id) else {
            return true;
        };
        program.values[result].def = Def::Constant(literal);
        false
    });
}

/// The result of a node and its value, if that can be folded.
fn folded(module: &Module, program: &Program, id: NodeId) -> Option<(ValueId, Literal)> {
    let node = &program.nodes[id];
    let &[result] = &node.results[..] else {
        return None;
    };
    if !matches!(node.kind, NodeKind::Op) || node.operands.is_empty() {
        return None;
    }
    let constants: Option<Vec<&Literal>> = node
        .operands
        .iter()
        .map(|&v| match &program.values[v].def {
            Def::Constant(literal) => Some(literal),
            _ => None,
        })
        .collect();
    let constants = constants?;
    let shape = &program.values[result].shape;
    let count = usize::try_from(shape.element_count()?).ok()?;
    let largest = constants.iter().map(|x| x.len()).max()?;
    let small = (1..=MAX_ELEMENTS).contains(&count) && largest <= MAX_ELEMENTS;
    // Types narrower than a byte are packed in literals, and quantised types have scales.
    if !small
        || count > largest
        || shape.element_type.bits() < 8 && shape.element_type != ElementType::Pred
    {
        return None;
    }
    let literal = moved(module, node, &constants, shape)
        .or_else(|| computed(module, node, &constants, shape))?;
    Some((result, literal))
}

/// Maps the index of an element of the result to that of an element of the operand; `None` if there
/// is none.
type Place = dyn Fn(&[i64]) -> Option<Vec<i64>>;

/// The result of an operation that only moves elements.
fn moved(
    module: &Module,
    node: &Node,
    constants: &[&Literal],
    shape: &ArrayShape,
) -> Option<Literal> {
    let (&source, rest) = constants.split_first()?;
    let from: Vec<i64> = source.shape().static_dims()?.to_vec();
    let place: Box<Place> = match &module[node.origin].op {
        Op::Reshape | Op::Bitcast if source.element_type() == shape.element_type => {
            return Literal::from_bytes(shape, source.bytes()).ok();
        }
        Op::Slice(dims) => {
            let dims: Vec<(i64, i64)> = dims.iter().map(|d| (d.start, d.stride)).collect();
            Box::new(move |index| {
                let pairs = index.iter().zip(&dims);
                Some(
                    pairs
                        .map(|(i, (start, stride))| start + i * stride)
                        .collect(),
                )
            })
        }
        Op::Transpose(order) => {
            let order = order.clone();
            Box::new(move |index| {
                let mut place = vec![0; index.len()];
                for (&i, &d) in index.iter().zip(&order) {
                    *place.get_mut(usize::try_from(d).ok()?)? = i;
                }
                Some(place)
            })
        }
        Op::Broadcast(dims) => {
            let dims = dims.clone();
            Box::new(move |index| {
                let at = |&d: &i64| index.get(usize::try_from(d).ok()?).copied();
                dims.iter().map(at).collect()
            })
        }
        Op::DynamicSlice(_) => {
            let sizes: Vec<i64> = shape.static_dims()?.to_vec();
            let starts: Option<Vec<i64>> = (rest.iter().zip(&from).zip(&sizes))
                .map(|((start, &whole), &size)| {
                    Some(integer(start)?.clamp(0, (whole - size).max(0)))
                })
                .collect();
            let starts = starts.filter(|starts| starts.len() == from.len())?;
            Box::new(move |index| Some(index.iter().zip(&starts).map(|(i, s)| i + s).collect()))
        }
        _ => return None,
    };
    if source.element_type() != shape.element_type {
        return None;
    }
    let mut literal = Literal::zeros(shape).ok()?;
    let dims: Vec<i64> = shape.static_dims()?.to_vec();
    let elements = Bits::of(source);
    let places: Option<Vec<usize>> = (0..literal.len())
        .map(|number| position(&place(&index_of(number, &dims))?, &from))
        .collect();
    let places = places.filter(|places| places.iter().all(|&p| p < source.len()))?;
    let mut into = BitsMut::of(&mut literal);
    for (number, place) in places.into_iter().enumerate() {
        into.set(number, elements.get(place));
    }
    Some(literal)
}

/// The index of an element, given its number in row-major order.
fn index_of(mut number: usize, dims: &[i64]) -> Vec<i64> {
    let mut index = vec![0; dims.len()];
    for (i, &size) in index.iter_mut().zip(dims).rev() {
        let size = usize::try_from(size).unwrap_or(1).max(1);
        *i = (number % size) as i64;
        number /= size;
    }
    index
}

/// The number of an element in row-major order, given its index; `None` if it is out of bounds.
fn position(index: &[i64], dims: &[i64]) -> Option<usize> {
    if index.len() != dims.len() {
        return None;
    }
    let mut number = 0i64;
    for (&i, &size) in index.iter().zip(dims) {
        if !(0..size).contains(&i) {
            return None;
        }
        number = number * size + i;
    }
    usize::try_from(number).ok()
}

/// The value of a literal with one integer element.
fn integer(literal: &Literal) -> Option<i64> {
    let number = crate::analysis::trip_count::integer_of(literal)?;
    i64::try_from(number).ok()
}

/// The result of an operation that computes each element.
fn computed(
    module: &Module,
    node: &Node,
    constants: &[&Literal],
    shape: &ArrayShape,
) -> Option<Literal> {
    let (to, from) = (shape.element_type, constants.first()?.element_type());
    let op = &module[node.origin].op;
    if !is_rounded_alike(op, from) || !is_rounded_alike(op, to) {
        return None;
    }
    let mut literal = Literal::zeros(shape).ok()?;
    let operands: Vec<Bits<'_>> = constants.iter().map(|x| Bits::of(x)).collect();
    // An operand of one element applies to all elements: a selector, or a bound of a clamp.
    let at = |operand: usize, i: usize| {
        let alone = constants.get(operand)?.len() == 1;
        Some(operands.get(operand)?.get(if alone { 0 } else { i }))
    };
    let alike = |x: &&Literal| x.len() == 1 || x.len() == literal.len();
    if !constants.iter().all(alike) {
        return None;
    }
    let elements: Option<Vec<u128>> = (0..literal.len())
        .map(|i| match op {
            Op::Unary(op) => apply_unary(*op, from, at(0, i)?),
            Op::Binary(op) => apply_binary(*op, from, at(0, i)?, at(1, i)?),
            Op::Compare {
                direction, order, ..
            } => apply_compare(*direction, *order, from, at(0, i)?, at(1, i)?),
            Op::Select => Some(apply_select(at(0, i)?, at(1, i)?, at(2, i)?)),
            Op::Clamp => apply_clamp(to, at(0, i)?, at(1, i)?, at(2, i)?),
            Op::Convert => Some(apply_convert(from, to, at(0, i)?)),
            _ => None,
        })
        .collect();
    let mut into = BitsMut::of(&mut literal);
    for (i, bits) in elements?.into_iter().enumerate() {
        into.set(i, bits);
    }
    Some(literal)
}

/// Whether every target computes the same element of this type.
fn is_rounded_alike(op: &Op, ty: ElementType) -> bool {
    if ty == ElementType::Pred || ty.is_integer() {
        return true;
    }
    let exact = match op {
        Op::Unary(op) => matches!(op, Unary::Negate | Unary::Abs),
        Op::Binary(op) => matches!(
            op,
            Binary::Add
                | Binary::Subtract
                | Binary::Multiply
                | Binary::Divide
                | Binary::Maximum
                | Binary::Minimum
        ),
        Op::Compare { .. } | Op::Select | Op::Clamp | Op::Convert => true,
        _ => false,
    };
    exact && matches!(ty, ElementType::F32 | ElementType::F64)
}
