//! Turns index terms into C expressions.
//!
//! A term is computed in 32 bits if its value and those of its subterms fit for all values of the
//! variables in their ranges, otherwise in 64 bits. Quotients, remainders and selections are
//! assigned to variables once per block, so that terms which share them are short.

use rustc_hash::FxHashMap;
use tegula_expr::{Cmp, Interval, Node, Term, Var, range_of};

/// An expression, and whether it has 64 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expression {
    pub text: String,
    pub wide: bool,
    /// Whether it needs no parentheses as an operand of a product or quotient.
    atom: bool,
}

/// A literal of 32 or 64 bits; the smallest numbers cannot be written as a single literal.
pub(crate) fn literal(value: i64, wide: bool) -> String {
    match (value, wide) {
        (i64::MIN, _) => "(-9223372036854775807ll - 1)".to_owned(),
        (value, false) if value == i64::from(i32::MIN) => "(-2147483647 - 1)".to_owned(),
        (value, true) => format!("{value}ll"),
        (value, false) => value.to_string(),
    }
}

/// Whether all numbers in the range fit in 32 bits. The largest and the smallest number are
/// excluded, so that a sum of two such numbers minus one fits as well.
pub(crate) fn is_short(range: Interval) -> bool {
    range.is_empty() || (range.lower >= -i64::from(i32::MAX) && range.upper < i64::from(i32::MAX))
}

/// Writes terms as C statements and expressions.
#[derive(Debug)]
pub(crate) struct Terms {
    /// For each variable, its range.
    pub ranges: Vec<Interval>,
    /// For each variable, its name and whether it has 64 bits.
    names: Vec<Option<(String, bool)>>,
    /// The terms that have names, by block, outermost first.
    known: Vec<FxHashMap<Term, Expression>>,
    temporaries: usize,
}

/// Larger terms are assigned to a variable, so that no expression is long.
const LARGEST_INLINE: u32 = 9;

impl Terms {
    pub(crate) fn new(ranges: Vec<Interval>) -> Self {
        let names = vec![None; ranges.len()];
        Self {
            ranges,
            names,
            known: vec![FxHashMap::default()],
            temporaries: 0,
        }
    }

    /// A new variable that the kernel does not have, with its range.
    pub(crate) fn fresh(&mut self, range: Interval) -> Var {
        self.ranges.push(range);
        self.names.push(None);
        Var(self.ranges.len() as u32 - 1)
    }

    /// Sets the name of a variable from here on.
    pub(crate) fn name(&mut self, var: Var, name: &str, wide: bool) {
        if let Some(slot) = self.names.get_mut(var.0 as usize) {
            *slot = Some((name.to_owned(), wide));
        }
    }

    /// Whether a variable needs 64 bits.
    pub(crate) fn is_wide(&self, var: Var) -> bool {
        let range = self.ranges.get(var.0 as usize).copied();
        !is_short(range.unwrap_or(Interval::FULL))
    }

    pub(crate) fn open_block(&mut self) {
        self.known.push(FxHashMap::default());
    }

    pub(crate) fn close_block(&mut self) {
        self.known.pop();
    }

    /// The range of a term's values.
    pub(crate) fn range(&self, term: &Term) -> Interval {
        range_of(term, &self.ranges)
    }

    /// The expression of a term; the statements that it needs are appended to `out`.
    pub(crate) fn term(&mut self, term: &Term, out: &mut Vec<String>) -> Expression {
        term.fold(&mut |term: &Term, parts: &[Expression]| self.node(term, parts, out))
    }

    fn node(&mut self, term: &Term, parts: &[Expression], out: &mut Vec<String>) -> Expression {
        if let Some(known) = self.known.iter().rev().find_map(|block| block.get(term)) {
            return known.clone();
        }
        let range = self.range(term);
        let wide = !is_short(range) || parts.iter().any(|part| part.wide);
        let at = |i: usize| {
            parts
                .get(i)
                .map_or_else(String::new, |part| widened(part, wide))
        };
        let bracketed = |i: usize| match parts.get(i) {
            Some(part) if !part.atom && part.wide == wide => format!("({})", part.text),
            _ => at(i),
        };
        let plain = |text: String, atom: bool| Expression { text, wide, atom };
        let expression = match term.node() {
            Node::Const(value) => return plain(literal(*value, wide), *value >= 0),
            Node::Var(var) => {
                let name = self.names.get(var.0 as usize).cloned().flatten();
                // The plan's verifier has checked that variables are defined before they are used.
                let (text, wide) = name.unwrap_or_else(|| ("0".to_owned(), false));
                return Expression {
                    text,
                    wide,
                    atom: true,
                };
            }
            Node::Add(..) => plain(sum(&at(0), &at(1)), false),
            Node::Mul(..) => plain(format!("{} * {}", bracketed(0), bracketed(1)), false),
            Node::FloorDiv(a, b) | Node::CeilDiv(a, b) | Node::Mod(a, b) => {
                let text = self.division(term, [a, b], [bracketed(0), bracketed(1)], wide);
                plain(text, false)
            }
            Node::Min(..) | Node::Max(..) => {
                let name = if matches!(term.node(), Node::Min(..)) {
                    "min"
                } else {
                    "max"
                };
                plain(format!("tegula_{name}({}, {})", at(0), at(1)), true)
            }
            Node::Cmp(op, ..) => {
                let wide = parts.iter().any(|part| part.wide);
                let at = |i: usize| {
                    parts
                        .get(i)
                        .map_or_else(String::new, |part| widened(part, wide))
                };
                let sign = match op {
                    Cmp::Eq => "==",
                    Cmp::Ne => "!=",
                    Cmp::Lt => "<",
                    Cmp::Le => "<=",
                };
                let text = format!("({} {sign} {})", at(0), at(1));
                Expression {
                    text,
                    wide: false,
                    atom: true,
                }
            }
            Node::Select(..) => {
                let condition = parts.first().map_or("0", |part| part.text.as_str());
                plain(format!("({condition} ? {} : {})", at(1), at(2)), true)
            }
        };
        let costly = matches!(
            term.node(),
            Node::FloorDiv(..) | Node::CeilDiv(..) | Node::Mod(..) | Node::Select(..)
        );
        if costly || term.size() > LARGEST_INLINE {
            return self.temporary(term, &expression, out);
        }
        expression
    }

    /// A division: C's own operators can be used if no operand may be negative.
    fn division(
        &mut self,
        term: &Term,
        [a, b]: [&Term; 2],
        [left, right]: [String; 2],
        wide: bool,
    ) -> String {
        let (dividend, divisor) = (self.range(a), self.range(b));
        if dividend.lower >= 0 && divisor.lower > 0 {
            let unsigned = if wide {
                "unsigned long long"
            } else {
                "unsigned int"
            };
            let signed = if wide { "long long" } else { "int" };
            let (left, right) = (
                format!("({unsigned})({left})"),
                format!("({unsigned}){right}"),
            );
            match term.node() {
                Node::FloorDiv(..) => return format!("({signed})({left} / {right})"),
                Node::Mod(..) => return format!("({signed})({left} % {right})"),
                _ => {}
            }
        }
        let name = match term.node() {
            Node::FloorDiv(..) => "floor_div",
            Node::CeilDiv(..) => "ceil_div",
            _ => "mod",
        };
        format!("tegula_{name}({left}, {right})")
    }

    fn temporary(
        &mut self,
        term: &Term,
        expression: &Expression,
        out: &mut Vec<String>,
    ) -> Expression {
        let name = format!("t{}", self.temporaries);
        self.temporaries += 1;
        let ty = if expression.wide { "long long" } else { "int" };
        out.push(format!("const {ty} {name} = {};", expression.text));
        let named = Expression {
            text: name,
            wide: expression.wide,
            atom: true,
        };
        if let Some(block) = self.known.last_mut() {
            block.insert(term.clone(), named.clone());
        }
        named
    }
}

fn widened(part: &Expression, wide: bool) -> String {
    match (wide && !part.wide, part.atom) {
        (false, _) => part.text.clone(),
        (true, true) => format!("(long long){}", part.text),
        (true, false) => format!("(long long)({})", part.text),
    }
}

fn sum(a: &str, b: &str) -> String {
    match b.strip_prefix('-') {
        Some(b) if b.chars().all(|c| c.is_ascii_alphanumeric()) => format!("{a} - {b}"),
        _ => format!("{a} + {b}"),
    }
}
