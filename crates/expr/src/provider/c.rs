//! An emitter of C text, which is also valid CUDA C++.
//!
//! A number is a `tegula_index`: a value, with the reason why there is none. The functions on it
//! use only 64-bit integers and no compiler builtins, so any C or C++ compiler accepts them,
//! including NVRTC.

use super::{Arithmetic, Emitted, Emitter, Emitting, KnownOperand, Number};
use crate::eval::EvalError;
use crate::term::Cmp;
use std::fmt::Write;

/// An emitter of C text for partially known operands.
#[derive(Debug)]
pub struct CText<'a> {
    known: &'a [KnownOperand],
    statements: String,
    values: usize,
}

/// A C function that computes sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CFunction {
    /// Its definition. `NAME(dims, elements, out)` takes the sizes and the elements of each
    /// operand, and writes the results. It returns 0, or the reason why the first result without a
    /// value has none: 1 for overflow, 2 for division by zero.
    pub definition: String,
}

impl CFunction {
    /// Text that must precede all definitions, once per file. Functions are declared with
    /// `TEGULA_FUNCTION`, which a file may define (for example as `static __device__`).
    pub const PRELUDE: &str = PRELUDE;
}

impl<'a> CText<'a> {
    /// An emitter without any output yet.
    pub fn new(known: &'a [KnownOperand]) -> Self {
        Self {
            known,
            statements: String::new(),
            values: 0,
        }
    }

    fn define(&mut self, expression: &str) -> String {
        let name = format!("t{}", self.values);
        self.values += 1;
        let _ = writeln!(
            self.statements,
            "    const tegula_index {name} = {expression};"
        );
        name
    }
}

impl Emitting<CText<'_>> {
    /// A function with this name that computes these numbers and everything that they depend on.
    pub fn function(mut self, name: &str, results: &[Emitted<String>]) -> CFunction {
        let results: Vec<String> = results.iter().map(|result| self.code(result)).collect();
        let mut text = format!(
            "TEGULA_FUNCTION int {name}(const long long *const *dims, \
             const long long *const *elements, long long *out)\n{{\n    \
             int fault = 0;\n    (void)dims;\n    (void)elements;\n{}",
            self.0.statements
        );
        for (i, result) in results.iter().enumerate() {
            let _ = writeln!(
                text,
                "    out[{i}] = {result}.value;\n    if (!fault) fault = {result}.fault;"
            );
        }
        text.push_str("    return fault;\n}\n");
        CFunction { definition: text }
    }
}

fn fault(error: EvalError) -> u8 {
    match error {
        EvalError::DivisionByZero => 2,
        EvalError::Overflow | EvalError::Unbound(_) => 1,
    }
}

/// A C literal; the smallest `long long` cannot be written as a single literal.
fn literal(value: i64) -> String {
    match value {
        i64::MIN => "(-9223372036854775807LL - 1)".to_owned(),
        value => format!("{value}LL"),
    }
}

impl Emitter for CText<'_> {
    type Value = String;

    fn constant(&mut self, value: Number) -> String {
        let expression = match value {
            Ok(value) => format!("tegula_number({}, 0)", literal(value)),
            Err(error) => format!("tegula_number(0, {})", fault(error)),
        };
        self.define(&expression)
    }

    fn arithmetic(&mut self, op: Arithmetic, a: &String, b: &String) -> String {
        let function = match op {
            Arithmetic::Add => "add",
            Arithmetic::Sub => "sub",
            Arithmetic::Mul => "mul",
            Arithmetic::FloorDiv => "floor_div",
            Arithmetic::CeilDiv => "ceil_div",
            Arithmetic::Mod => "mod",
            Arithmetic::Min => "min",
            Arithmetic::Max => "max",
            Arithmetic::Cmp(Cmp::Eq) => "eq",
            Arithmetic::Cmp(Cmp::Ne) => "ne",
            Arithmetic::Cmp(Cmp::Lt) => "lt",
            Arithmetic::Cmp(Cmp::Le) => "le",
        };
        self.define(&format!("tegula_{function}({a}, {b})"))
    }

    fn select(&mut self, condition: &String, a: &String, b: &String) -> String {
        self.define(&format!("tegula_select({condition}, {a}, {b})"))
    }

    fn shape(&mut self, operand: usize, dim: usize) -> Emitted<String> {
        let known = self.known.get(operand).and_then(|known| known.dim(dim));
        match known {
            Some(size) => Emitted::Known(Ok(size)),
            None => {
                let expression = format!("tegula_number(dims[{operand}][{dim}], 0)");
                Emitted::Code(self.define(&expression))
            }
        }
    }

    fn known_element(&mut self, operand: usize, flat: usize) -> Option<i64> {
        self.known.get(operand)?.element(flat)
    }

    fn element(&mut self, operand: usize, flat: usize) -> String {
        self.define(&format!("tegula_number(elements[{operand}][{flat}], 0)"))
    }
}

const PRELUDE: &str = r"#ifndef TEGULA_FUNCTION
#define TEGULA_FUNCTION static
#endif

/* A 64-bit number; fault: 0 has a value, 1 overflow, 2 division by zero. */
typedef struct { long long value; int fault; } tegula_index;

TEGULA_FUNCTION tegula_index tegula_number(long long value, int fault)
{
    tegula_index index;
    index.value = value;
    index.fault = fault;
    return index;
}

#define TEGULA_MAX 9223372036854775807LL
#define TEGULA_MIN (-9223372036854775807LL - 1)
#define TEGULA_OPERANDS(a, b) \
    if ((a).fault) return a; \
    if ((b).fault) return b
#define TEGULA_OVERFLOW tegula_number(0, 1)

TEGULA_FUNCTION tegula_index tegula_add(tegula_index a, tegula_index b)
{
    TEGULA_OPERANDS(a, b);
    if (b.value > 0 ? a.value > TEGULA_MAX - b.value : a.value < TEGULA_MIN - b.value)
        return TEGULA_OVERFLOW;
    return tegula_number(a.value + b.value, 0);
}

TEGULA_FUNCTION tegula_index tegula_sub(tegula_index a, tegula_index b)
{
    TEGULA_OPERANDS(a, b);
    if (b.value < 0 ? a.value > TEGULA_MAX + b.value : a.value < TEGULA_MIN + b.value)
        return TEGULA_OVERFLOW;
    return tegula_number(a.value - b.value, 0);
}

TEGULA_FUNCTION tegula_index tegula_mul(tegula_index a, tegula_index b)
{
    TEGULA_OPERANDS(a, b);
    if (a.value == 0 || b.value == 0)
        return tegula_number(0, 0);
    if ((a.value == -1 && b.value == TEGULA_MIN) || (b.value == -1 && a.value == TEGULA_MIN))
        return TEGULA_OVERFLOW;
    if (a.value != -1 && b.value != -1) {
        if (b.value > 0 ? a.value > TEGULA_MAX / b.value || a.value < TEGULA_MIN / b.value
                        : a.value < TEGULA_MAX / b.value || a.value > TEGULA_MIN / b.value)
            return TEGULA_OVERFLOW;
    }
    return tegula_number(a.value * b.value, 0);
}

TEGULA_FUNCTION tegula_index tegula_divide(tegula_index a, tegula_index b, int up)
{
    TEGULA_OPERANDS(a, b);
    if (b.value == 0)
        return tegula_number(0, 2);
    if (a.value == TEGULA_MIN && b.value == -1)
        return TEGULA_OVERFLOW;
    long long quotient = a.value / b.value, remainder = a.value % b.value;
    int opposite = (remainder < 0) != (b.value < 0);
    if (remainder != 0 && !up && opposite)
        quotient -= 1;
    if (remainder != 0 && up && !opposite)
        quotient += 1;
    return tegula_number(quotient, 0);
}

TEGULA_FUNCTION tegula_index tegula_floor_div(tegula_index a, tegula_index b)
{
    return tegula_divide(a, b, 0);
}

TEGULA_FUNCTION tegula_index tegula_ceil_div(tegula_index a, tegula_index b)
{
    return tegula_divide(a, b, 1);
}

TEGULA_FUNCTION tegula_index tegula_mod(tegula_index a, tegula_index b)
{
    TEGULA_OPERANDS(a, b);
    if (b.value == 0)
        return tegula_number(0, 2);
    if (b.value == -1)
        return tegula_number(0, 0);
    long long remainder = a.value % b.value;
    if (remainder != 0 && (remainder < 0) != (b.value < 0))
        remainder += b.value;
    return tegula_number(remainder, 0);
}

#define TEGULA_SIMPLE(name, expression) \
    TEGULA_FUNCTION tegula_index tegula_##name(tegula_index a, tegula_index b) \
    { \
        TEGULA_OPERANDS(a, b); \
        return tegula_number(expression, 0); \
    }

TEGULA_SIMPLE(min, a.value < b.value ? a.value : b.value)
TEGULA_SIMPLE(max, a.value > b.value ? a.value : b.value)
TEGULA_SIMPLE(eq, a.value == b.value)
TEGULA_SIMPLE(ne, a.value != b.value)
TEGULA_SIMPLE(lt, a.value < b.value)
TEGULA_SIMPLE(le, a.value <= b.value)

TEGULA_FUNCTION tegula_index tegula_select(tegula_index c, tegula_index a, tegula_index b)
{
    if (c.fault)
        return c;
    return c.value ? a : b;
}
";
