//! Finds operations after a matrix product that cublasLt can fuse into it (an epilogue): a bias
//! along the rows, followed by ReLU or the tanh form of GELU.
//!
//! A kernel qualifies if it applies to each element of the product, and possibly the corresponding
//! element of a vector, a function that cublasLt offers as an epilogue. To compare them, an
//! expression is brought into the form P(x) + Q(x) tanh(R(x)) with polynomials P, Q and R.
//! Intermediate rounding must be the same, so only operations in f32 or f64 are fused, and ReLU,
//! which rounds nothing, for any type.
//!
//! The product is then computed in place of the kernel, which is the next step, and stored in the
//! kernel's result. The result must not overlap the product's operands.

use crate::attention::{Readers, overlap};
use crate::library::matrices::{Activation, Epilogue};
use rustc_hash::FxHashMap;
use tegula_expr::{Interval, Term, canonicalize, range_of, residue_of};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, IndexVar, ScalarId, ScalarOp, Statement};
use tegula_ir::{Binary, ElementType, Unary};
use tegula_plan::{Plan, Step, ValueId};

/// The epilogue of a product.
pub(crate) struct Joined {
    pub epilogue: Epilogue,
    pub bias: Option<ValueId>,
    /// The value that is written instead of the product's own result.
    pub out: ValueId,
    /// The number of steps after the product that it replaces.
    pub steps: usize,
}

/// Finds the steps after a dot that the library can do as part of it. `operands` are the dot's
/// operands, and `neighbours` is the number of elements of the result along which a bias runs.
pub(crate) fn find(
    plan: &Plan,
    after: &[Step],
    readers: &Readers,
    (operands, result): (&[ValueId], ValueId),
    neighbours: i64,
) -> Option<Joined> {
    let only = |value: ValueId| readers.get(&value) == Some(&1);
    let (mut value, mut steps) = (result, 0);
    let (kernel, args) = loop {
        if !only(value) {
            return None;
        }
        match after.get(steps)? {
            Step::Copy { from, to } if *from == value && plan.same_place(*from, *to) => value = *to,
            Step::Kernel { kernel, args } => break (&plan.kernels[*kernel], args),
            _ => return None,
        }
        steps += 1;
    };
    let reader = Reader::of(plan, kernel, args, value)?;
    let (epilogue, bias) = reader.epilogue(neighbours)?;
    let out = args[reader.out];
    // The added array must be at the same place as the result, or not overlap it.
    let clash = |&operand: &ValueId| match Some(&operand) == operands.get(2) {
        true => overlap(plan, operand, out) && !plan.same_place(operand, out),
        false => overlap(plan, operand, out),
    };
    if operands.iter().chain(&bias).any(clash) {
        return None;
    }
    Some(Joined {
        epilogue,
        bias,
        out,
        steps: steps + 1,
    })
}

/// A kernel with a single store, at the same index at which it loads the product.
struct Reader<'a> {
    kernel: &'a Kernel,
    args: &'a [ValueId],
    /// The numbers of the parameters that are the product and the result.
    product: usize,
    out: usize,
    /// The linear index of the element in both, and the ranges of the variables.
    place: Term,
    ranges: Vec<Interval>,
}

impl<'a> Reader<'a> {
    fn of(plan: &Plan, kernel: &'a Kernel, args: &'a [ValueId], product: ValueId) -> Option<Self> {
        let is_dense = kernel.params.len() == args.len() && kernel.params.len() <= 3;
        let named = args.iter().filter(|&&arg| arg == product).count();
        let product = args.iter().position(|&arg| arg == product)?;
        let written = |p: &&tegula_fusion::kernel::Param| p.access != Access::Read;
        let out = kernel
            .params
            .iter()
            .position(|p| p.access == Access::Write)?;
        if !is_dense || named != 1 || kernel.params.iter().filter(written).count() != 1 {
            return None;
        }
        let [before, after] = [product, out].map(|arg| &plan.values[args[arg]].shape);
        let same = before.element_type == after.element_type
            && before.element_type.is_float()
            && before.byte_size().is_some()
            && before.byte_size() == after.byte_size();
        let ranges = kernel.vars.iter().map(|var| match var {
            IndexVar::Domain(extent) => Some(Interval::new(0, extent.as_constant()? - 1)),
            _ => None,
        });
        let ranges = ranges.collect::<Option<Vec<_>>>()?;
        let mut stores = kernel.body.statements.iter().filter_map(|s| match s {
            Statement::Store { param, index, .. } if *param == out => Some(index),
            _ => None,
        });
        let place = kernel.params[out].elements_before(stores.next()?);
        let place = canonicalize(&place, &ranges[..]);
        (same && stores.next().is_none()).then_some(Self {
            kernel,
            args,
            product,
            out,
            place,
            ranges,
        })
    }

    fn epilogue(&self, neighbours: i64) -> Option<(Epilogue, Option<ValueId>)> {
        let mut values = Values {
            known: FxHashMap::default(),
            biased: None,
        };
        let mut bias = None;
        let mut stored = None;
        for statement in &self.kernel.body.statements {
            match statement {
                Statement::Load {
                    result,
                    param,
                    index,
                } => {
                    let place = self.kernel.params.get(*param)?.elements_before(index);
                    let place = canonicalize(&place, &self.ranges[..]);
                    let value = if *param == self.product {
                        (place == self.place).then_some(Value::Product)?
                    } else {
                        self.runs_along(*param, &place, neighbours).then_some(())?;
                        bias = Some(self.args[*param]);
                        Value::Bias
                    };
                    values.known.insert(*result, value);
                }
                Statement::Compute {
                    result,
                    op,
                    operands,
                } => {
                    let ty = self.kernel.scalars.get(*result)?;
                    let value = values.compute(ty, op, operands)?;
                    values.known.insert(*result, value);
                }
                Statement::Store { value, .. } => stored = values.known.remove(value),
                _ => return None,
            }
        }
        let ty = self.kernel.params[self.out].element_type;
        let is_half = ty.bits() < 32;
        let activation = match stored? {
            Value::Positive => Some(Activation::Relu),
            Value::Form(form) if form.is_gelu() && ty == ElementType::F32 => Some(Activation::Gelu),
            Value::Form(form) if form == Form::x() && bias.is_some() => None,
            _ => return None,
        };
        // Half-precision products are rounded before anything is added to them.
        let joins = !is_half || (bias.is_none() && activation == Some(Activation::Relu));
        let epilogue = Epilogue {
            bias: bias.is_some(),
            activation,
        };
        joins.then_some((epilogue, bias))
    }

    /// Whether the index into a vector is the position of an element in its run of adjacent
    /// elements.
    fn runs_along(&self, param: usize, place: &Term, neighbours: i64) -> bool {
        let ranges = &self.ranges[..];
        let within = range_of(place, ranges);
        let rest = canonicalize(&self.place.sub(place), ranges);
        let rest = residue_of(&rest, ranges);
        let of_out =
            self.kernel.params[param].element_type == self.kernel.params[self.out].element_type;
        of_out
            && within.lower >= 0
            && within.upper < neighbours
            && rest.modulus % neighbours == 0
            && rest.remainder % neighbours == 0
    }
}

/// What is known about scalars.
struct Values {
    known: FxHashMap<ScalarId, Value>,
    /// Whether `x` includes the bias, once that is known.
    biased: Option<bool>,
}

#[derive(Clone, Copy, PartialEq)]
enum Value {
    /// An element of the product; `Bias` is one of the bias.
    Product,
    Bias,
    Form(Form),
    /// The positive part of `x` (ReLU).
    Positive,
}

/// The highest power of `x`.
const DEGREE: usize = 3;
/// Coefficients by power of `x`.
type Polynomial = [f64; DEGREE + 1];

/// The expression P(x) + Q(x) tanh(R(x)).
#[derive(Clone, Copy, PartialEq)]
struct Form {
    plain: Polynomial,
    factor: Polynomial,
    inner: Polynomial,
    /// Whether it was computed with rounding: `x + 1 - 1` is not `x`, because both operations
    /// round.
    is_rounded: bool,
}

impl Form {
    fn constant(value: f64) -> Self {
        Self {
            plain: [value, 0.0, 0.0, 0.0],
            factor: [0.0; DEGREE + 1],
            inner: [0.0; DEGREE + 1],
            is_rounded: false,
        }
    }

    fn x() -> Self {
        Self {
            plain: [0.0, 1.0, 0.0, 0.0],
            ..Self::constant(0.0)
        }
    }

    fn is_polynomial(&self) -> bool {
        self.factor == [0.0; DEGREE + 1]
    }

    fn add(&self, other: &Self, sign: f64) -> Option<Self> {
        let inner = match (self.is_polynomial(), other.is_polynomial()) {
            (_, true) => self.inner,
            (true, false) => other.inner,
            (false, false) => (self.inner == other.inner).then_some(self.inner)?,
        };
        let sum = |a: &Polynomial, b: &Polynomial| std::array::from_fn(|i| a[i] + sign * b[i]);
        Some(Self {
            plain: sum(&self.plain, &other.plain),
            factor: sum(&self.factor, &other.factor),
            inner,
            is_rounded: true,
        })
    }

    fn multiply(&self, other: &Self) -> Option<Self> {
        let (tanh, other) = match (self.is_polynomial(), other.is_polynomial()) {
            (_, true) => (self, other),
            (true, false) => (other, self),
            (false, false) => return None,
        };
        Some(Self {
            plain: product(&tanh.plain, &other.plain)?,
            factor: product(&tanh.factor, &other.plain)?,
            inner: tanh.inner,
            is_rounded: true,
        })
    }

    /// Whether it is GELU's tanh form, with constants in f32.
    fn is_gelu(&self) -> bool {
        let root = (2.0 / std::f64::consts::PI).sqrt();
        let half = [0.0, 0.5, 0.0, 0.0];
        let near = |a: &Polynomial, b: &Polynomial| {
            let mut pairs = a.iter().zip(b);
            pairs.all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs())
        };
        near(&self.plain, &half)
            && near(&self.factor, &half)
            && near(&self.inner, &[0.0, root, 0.0, 0.044715 * root])
    }
}

fn product(a: &Polynomial, b: &Polynomial) -> Option<Polynomial> {
    let mut all = [0.0; DEGREE + 1];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            match all.get_mut(i + j) {
                Some(term) => *term += x * y,
                None if x * y == 0.0 => {}
                None => return None,
            }
        }
    }
    Some(all)
}

impl Values {
    fn compute(&mut self, ty: ElementType, op: &ScalarOp, operands: &[ScalarId]) -> Option<Value> {
        if let ScalarOp::Constant(bits) = op {
            // Of constants of other float types, only zero is understood.
            return Some(Value::Form(Form::constant(match ty {
                ElementType::F32 => f64::from(f32::from_bits(u32::try_from(*bits).ok()?)),
                ElementType::F64 => f64::from_bits(u64::try_from(*bits).ok()?),
                _ => (*bits == 0).then_some(0.0)?,
            })));
        }
        let values = operands.iter().map(|o| self.known.get(o).copied());
        let values = values.collect::<Option<Vec<Value>>>()?;
        match (op, &values[..]) {
            (
                ScalarOp::Binary(Binary::Add),
                [Value::Product, Value::Bias] | [Value::Bias, Value::Product],
            ) => self.based(true),
            (ScalarOp::Binary(Binary::Maximum), &[a, b]) => {
                let forms = [self.form(a)?, self.form(b)?];
                let zero = Form::constant(0.0);
                let is_negative = |form: &Form| form.plain[0].is_sign_negative();
                (forms == [Form::x(), zero] || forms == [zero, Form::x()]).then_some(())?;
                (!forms.iter().any(is_negative)).then_some(Value::Positive)
            }
            (ScalarOp::Binary(op), &[a, b]) => {
                let [a, b] = [self.form(a)?, self.form(b)?];
                let form = match op {
                    Binary::Add => a.add(&b, 1.0)?,
                    Binary::Subtract => a.add(&b, -1.0)?,
                    Binary::Multiply => a.multiply(&b)?,
                    Binary::Divide => {
                        let by = Form::constant(b.plain[0]);
                        (b == by && b.plain[0] != 0.0).then_some(())?;
                        a.multiply(&Form::constant(1.0 / b.plain[0]))?
                    }
                    Binary::Power if b == Form::constant(3.0) => a.multiply(&a)?.multiply(&a)?,
                    Binary::Power if b == Form::constant(2.0) => a.multiply(&a)?,
                    _ => return None,
                };
                Some(Value::Form(form))
            }
            (ScalarOp::Unary(Unary::Tanh), &[a]) => {
                let inner = self.form(a)?;
                inner.is_polynomial().then_some(())?;
                Some(Value::Form(Form {
                    factor: Form::constant(1.0).plain,
                    inner: inner.plain,
                    ..Form::constant(0.0)
                }))
            }
            _ => None,
        }
    }

    /// The form `x`, which must include the bias either everywhere or nowhere.
    fn based(&mut self, with_bias: bool) -> Option<Value> {
        let known = *self.biased.get_or_insert(with_bias);
        (known == with_bias).then_some(Value::Form(Form::x()))
    }

    fn form(&mut self, value: Value) -> Option<Form> {
        match value {
            Value::Form(form) => Some(form),
            Value::Product => match self.based(false)? {
                Value::Form(form) => Some(form),
                _ => None,
            },
            Value::Bias | Value::Positive => None,
        }
    }
}
