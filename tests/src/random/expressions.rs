//! Random expressions: elementwise operations on a few arrays of one shape, of all types and with
//! special values. Many operations have equal or related operands, because they test the
//! simplification of scalars.

use super::ops::{BINARY_INTEGER, UNARY_EXACT, UNARY_GENERAL, UNARY_INTEGER};
use super::{Body, Generator, Known, Random, RandomProgram, Regime, root};
use std::fmt::Write;
use tegula_ir::{ArrayShape, Category, ElementType, Literal, Scalar};

/// Types of the first array.
const TYPES: &[ElementType] = &[
    ElementType::F32,
    ElementType::F32,
    ElementType::F32,
    ElementType::F64,
    ElementType::F64,
    ElementType::BF16,
    ElementType::F16,
    ElementType::C64,
    ElementType::C64,
    ElementType::C128,
    ElementType::S32,
    ElementType::S64,
    ElementType::U32,
    ElementType::U64,
    ElementType::S16,
    ElementType::U16,
    ElementType::S8,
    ElementType::U8,
    ElementType::S4,
    ElementType::U4,
    ElementType::S2,
    ElementType::U2,
    ElementType::Pred,
    ElementType::F8E4M3FN,
    ElementType::F8E5M2,
    ElementType::F8E4M3,
    ElementType::F8E3M4,
    ElementType::F8E4M3B11FNUZ,
    ElementType::F8E4M3FNUZ,
    ElementType::F8E5M2FNUZ,
    ElementType::F8E8M0FNU,
    ElementType::F4E2M1FN,
];

/// Functions from complex to complex numbers.
const UNARY_COMPLEX: &[&str] = &[
    "negate",
    "negate",
    "sign",
    "exponential",
    "exponential-minus-one",
    "log",
    "log-plus-one",
    "sine",
    "cosine",
    "tan",
    "tanh",
    "logistic",
    "sqrt",
    "rsqrt",
    "cbrt",
];

/// Special values: zeros, infinities, NaN, and numbers at which functions or number formats have
/// special cases.
const SPECIAL: &[f64] = &[
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -1.5,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e-310,
    -1e-42,
    3e-39,
    6e-8,
    448.0,
    -65504.0,
    3.3e38,
    -1e300,
];

/// The random expression for a seed.
pub fn random_expression(seed: u64) -> RandomProgram {
    let mut random = Random::new(seed ^ 0xE4_95E5);
    let mut generator = Generator {
        regime: Regime::General,
        computations: String::new(),
        next: 0,
        depth: 0,
        random: Random::new(random.word()),
    };
    let dims = vec![*generator.random.pick(&[1, 3, 17, 40])];
    let mut body = Body::default();
    let mut inputs = Vec::new();
    let ty = *generator.random.pick(TYPES);
    let parameters = 1 + generator.random.below(3);
    for i in 0..parameters {
        let ty = if generator.random.once_in(4) {
            *generator.random.pick(TYPES)
        } else {
            ty
        };
        let known = Known {
            name: format!("p{i}"),
            ty,
            dims: dims.clone(),
            bits: 0,
        };
        body.push(known.clone(), &format!("parameter({i})"));
        inputs.push(input(&mut generator.random, &known));
    }
    for _ in 0..3 + generator.random.below(12) {
        generator.expression(&mut body);
    }
    let chosen = generator.results(&body);
    let mut text = format!("HloModule expression_{seed}\n\n");
    let _ = writeln!(text, "ENTRY main {{\n{}{}}}", body.text, root(&chosen));
    RandomProgram { text, inputs }
}

/// A random array for a parameter: special values, small numbers, and arbitrary integers.
fn input(random: &mut Random, known: &Known) -> Literal {
    let shape = ArrayShape::new(known.ty, &known.dims);
    let float = |random: &mut Random| match random.below(3) {
        0 => *random.pick(SPECIAL),
        1 => random.between(-8, 8) as f64 / 2.0,
        _ => random.between(-400_000, 400_000) as f64 / 65_536.0,
    };
    let elements = (0..known.elements()).map(|_| match known.ty.category() {
        Category::Boolean => Scalar::Bool(random.once_in(2)),
        Category::Signed if random.once_in(3) => Scalar::Int(random.word() as i64),
        Category::Signed => Scalar::Int(random.between(-3, 3)),
        Category::Unsigned if random.once_in(3) => Scalar::Uint(random.word()),
        Category::Unsigned => Scalar::Uint(random.word() % 5),
        Category::Float => Scalar::Float(float(random)),
        // Complex numbers are finite, because products of infinite parts depend on the formula.
        Category::Complex => Scalar::Complex(
            random.between(-4000, 4000) as f64 / 1024.0,
            random.between(-6, 6) as f64 / 2.0,
        ),
    });
    let elements: Vec<Scalar> = elements.collect();
    Literal::from_scalars(&shape, elements).expect("the shape is static and small")
}

impl Generator {
    fn expression(&mut self, body: &mut Body) {
        match self.random.below(20) {
            0..=6 => self.function_of(body),
            7..=12 => self.operation(body),
            13 => self.compare(body),
            14 | 15 => self.select(body),
            16 => self.clamp(body),
            17 => self.change_of_type(body),
            18 => self.parts(body),
            _ => self.number(body),
        }
    }

    fn function_of(&mut self, body: &mut Body) {
        let x = self.any(body);
        let op = *match x.ty.category() {
            Category::Boolean => &"not",
            Category::Signed | Category::Unsigned => self.random.pick(UNARY_INTEGER),
            Category::Complex => self.random.pick(UNARY_COMPLEX),
            Category::Float if self.random.once_in(3) => self.random.pick(UNARY_GENERAL),
            Category::Float => self.random.pick(UNARY_EXACT),
        };
        self.define(body, x.ty, &x.dims, 0, &format!("{op}({})", x.name));
    }

    fn operation(&mut self, body: &mut Body) {
        let a = self.any(body);
        // In half of the cases, the second operand is the first one itself or the latest value of
        // its type.
        let same = |k: &Known| k.ty == a.ty;
        let b = match self.random.below(4) {
            0 => Some(a.clone()),
            1 => body.known.iter().rev().find(|k| same(k)).cloned(),
            _ => self.any_where(body, same),
        };
        let Some(b) = b else { return };
        let op = *match a.ty.category() {
            Category::Boolean => self
                .random
                .pick(&["and", "or", "xor", "add", "multiply", "maximum", "minimum"]),
            Category::Signed | Category::Unsigned => self.random.pick(BINARY_INTEGER),
            Category::Complex => self
                .random
                .pick(&["add", "subtract", "multiply", "multiply", "divide", "power"]),
            Category::Float => self.random.pick(&[
                "add",
                "subtract",
                "subtract",
                "multiply",
                "multiply",
                "divide",
                "divide",
                "maximum",
                "minimum",
                "remainder",
                "power",
                "atan2",
            ]),
        };
        let (a, b) = if self.random.once_in(2) {
            (a, b)
        } else {
            (b, a)
        };
        let text = format!("{op}({}, {})", a.name, b.name);
        self.define(body, a.ty, &a.dims, 0, &text);
    }

    fn change_of_type(&mut self, body: &mut Body) {
        let x = self.any(body);
        let to = *self.random.pick(TYPES);
        if x.ty.is_complex() && !to.is_complex() {
            return;
        }
        self.define(body, to, &x.dims, 0, &format!("convert({})", x.name));
    }

    /// Composes or decomposes complex numbers, or tests whether numbers are finite.
    fn parts(&mut self, body: &mut Body) {
        let x = self.any(body);
        if let Some(part) = x.ty.complex_part() {
            let op = *self.random.pick(&["real", "imag", "abs", "abs"]);
            return self.define(body, part, &x.dims, 0, &format!("{op}({})", x.name));
        }
        let complex = match x.ty {
            ElementType::F32 => ElementType::C64,
            ElementType::F64 => ElementType::C128,
            ty if ty.is_float() => {
                let text = format!("is-finite({})", x.name);
                return self.define(body, ElementType::Pred, &x.dims, 0, &text);
            }
            _ => return,
        };
        if let Some(y) = self.any_where(body, |k| k.ty == x.ty) {
            let text = format!("complex({}, {})", x.name, y.name);
            self.define(body, complex, &x.dims, 0, &text);
        }
    }

    /// A broadcast constant, of the type of an existing value.
    fn number(&mut self, body: &mut Body) {
        let like = self.any(body);
        let n = self.random.between(-2, 4);
        let text = match like.ty.category() {
            Category::Boolean => (n % 2 == 0).to_string(),
            Category::Signed => n.clamp(-2, 1).to_string(),
            Category::Unsigned => n.clamp(0, 3).to_string(),
            Category::Float => {
                let numbers: &[f64] = match like.ty {
                    ElementType::F64 => SPECIAL,
                    ElementType::F32 => &SPECIAL[..SPECIAL.len() - 1],
                    // This format has only powers of two.
                    ElementType::F8E8M0FNU => &[0.5, 1.0, 2.0],
                    ElementType::F16 | ElementType::BF16 | ElementType::F8E5M2 => &SPECIAL[..13],
                    _ => &[0.0, 1.0, -1.0, 0.5, 2.0, 3.0],
                };
                format!("{:?}", self.random.pick(numbers)).to_lowercase()
            }
            Category::Complex => format!("({n}, {})", self.random.between(-2, 2)),
        };
        let name = self.name();
        let _ = writeln!(body.text, "  {name} = {}[] constant({text})", like.ty);
        let text = format!("broadcast({name}), dimensions={{}}");
        self.define(body, like.ty, &like.dims, 0, &text);
    }
}
