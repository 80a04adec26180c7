//! Which routines of `crates/rt` a program calls, and with what.
//!
//! A call is described in words that are terms over the program's open sizes: a product is one call
//! at any sizes. A convolution is split into products as for a run, which needs its sizes; one with
//! open sizes stays a kernel.

use super::is_identifier;
use super::link::routines_for;
use super::routines::is_outside;
use crate::error::Error;
use crate::library::convolution::{Border, Convolution};
use crate::library::dot::{Dot, axes};
use rustc_hash::FxHashMap;
use tegula_expr::Term;
use tegula_fusion::{Contraction, Label, LibraryOp};
use tegula_ir::{AlignedBytes, ArrayShape, ElementType, Literal, Op};
use tegula_linalg::gemm::{Axes, MAX_AXES, Product};
use tegula_plan::dot::DotView;
use tegula_plan::{Place, Plan, Step, ValueId, convolution_kernel, label_sizes};
use tegula_rt::{Kind, call};
use tegula_target::{Architecture, CpuFeatures, IsaLevel, VectorWidth};

/// Bytes of a constant operand from which on it is packed when the program is compiled: half of
/// what a run packs once.
const WORTH_PACKING: i64 = 1 << 13;

/// A call of a routine.
pub(super) struct Call {
    pub routine: &'static str,
    /// The routine that says how much scratch memory it takes, if that depends on open sizes.
    pub scratch: Option<&'static str>,
    pub words: Vec<Term>,
    /// The constant that holds an operand's packed form, and where in it.
    pub kept: Option<(usize, usize)>,
}

/// What computes a step.
pub(super) enum Calls {
    Product(Call),
    Convolution(Convolved),
}

/// A convolution as calls.
pub(super) struct Convolved {
    /// The words of the copy with a border, and its bytes.
    pub padding: Option<Border>,
    pub products: Vec<Call>,
    /// What computes the result instead if it has NaN and the kernel is not finite: a border
    /// counts as nothing, but zero times infinity is NaN.
    pub repair: Option<Repair>,
}

pub(super) struct Repair {
    pub step: Step,
    /// How many elements the kernel and the result have.
    pub elements: [usize; 2],
    pub types: [ElementType; 2],
}

/// All calls of a program.
pub(super) struct Library {
    isa: CpuFeatures,
    architecture: Architecture,
    /// Why a step that is calls of routines is none.
    pub missing: Option<Error>,
    /// By the first result of a step.
    pub calls: FxHashMap<ValueId, Calls>,
    /// Constants besides the plan's.
    pub constants: Vec<Literal>,
    /// The functions that custom calls are, which whoever links the object has, in the order of the
    /// statuses that say that they failed.
    pub custom: Vec<String>,
    /// Bytes of scratch memory that calls of known sizes take.
    pub scratch: usize,
    /// How many constants the plan has.
    first: usize,
}

impl Library {
    pub(super) fn new(cpu: IsaLevel, plan: &Plan) -> Self {
        let isa = CpuFeatures {
            // The state of matrix registers has to be asked for, which is nothing for a library.
            amx_bf16: false,
            amx_int8: false,
            ..CpuFeatures::up_to(cpu)
        };
        Self {
            isa,
            architecture: cpu.architecture(),
            missing: None,
            calls: FxHashMap::default(),
            constants: Vec::new(),
            custom: Vec::new(),
            scratch: 0,
            first: plan.constants.len(),
        }
    }

    /// Whether a step is calls of routines. What it is not stays another's.
    pub(super) fn takes(&mut self, plan: &mut Plan, step: &Step) -> bool {
        let Step::Library {
            op,
            operands,
            results,
        } = step
        else {
            return false;
        };
        let calls = match op {
            LibraryOp::Dot(contraction) => self.dot(plan, contraction, operands, results),
            LibraryOp::Operation(op) if matches!(**op, Op::Convolution { .. }) => {
                self.convolution(plan, op, operands, results)
            }
            _ => None,
        };
        let (Some(calls), Some(&result)) = (calls, results.first()) else {
            return false;
        };
        if let Err(error) = routines_for(self.architecture) {
            self.missing = Some(error);
            return false;
        }
        self.calls.insert(result, calls);
        true
    }

    /// Whether a call has room for any scratch memory.
    pub(super) fn has_scratch(&self) -> bool {
        self.scratch > 0 || self.open().next().is_some()
    }

    /// The calls whose scratch memory depends on open sizes.
    pub(super) fn open(&self) -> impl Iterator<Item = &Call> {
        let products = self.calls.values().filter_map(|calls| match calls {
            Calls::Product(call) => Some(call),
            Calls::Convolution(_) => None,
        });
        products.filter(|call| call.scratch.is_some())
    }

    fn dot(
        &mut self,
        plan: &Plan,
        contraction: &Contraction,
        operands: &[ValueId],
        results: &[ValueId],
    ) -> Option<Calls> {
        let (&[lhs, rhs, ref added @ ..], &[out]) = (operands, results) else {
            return None;
        };
        let shapes = [lhs, rhs, out].map(|value| &plan.values[value].shape);
        let types = shapes.map(|shape| shape.element_type);
        let adds = !added.is_empty();
        if let Some(view) = DotView::new(shapes[0], shapes[1], contraction) {
            let axes = axes(&view)?;
            let mut fixed = fixed(plan, operands);
            let dot = Dot::new(
                self.isa,
                [shapes[0], shapes[1]],
                shapes[2],
                contraction,
                adds,
                fixed,
            )?;
            let product = dot.product();
            if adds && product.kept_bytes().is_none() {
                // What cannot be added if an operand is packed before is packed in each call.
                let packed = Product::new(self.isa, types, axes.clone(), fixed)?;
                fixed = fixed.filter(|_| packed.adding().is_some());
            }
            let tables = product.table_bytes().next_multiple_of(64);
            self.scratch = self.scratch.max(tables + product.scratch_bytes(1));
            let kept = product.kept_bytes().and_then(|(operand, bytes)| {
                let source = constant(plan, *operands.get(operand)?)?;
                // SAFETY: the constant is the operand, the memory as large as the product says and
                // aligned to 64.
                self.packed(bytes, |kept| unsafe {
                    product.keep(source.bytes().as_ptr(), kept);
                })
            });
            let fixed = fixed.filter(|_| kept.is_some() || product.kept_bytes().is_none());
            let call = self.call(
                Kind::Product,
                types,
                &axes,
                fixed,
                adds,
                kept.map(|k| (k, 0)),
            );
            return Some(Calls::Product(call));
        }
        // The types decide whether there is such a product.
        let tried = Product::new(self.isa, types, Axes::default(), None)?;
        if adds {
            tried.adding()?;
        }
        let axes = open_axes(plan, contraction, &[lhs, rhs])?;
        let mut call = self.call(Kind::Product, types, &Axes::default(), None, adds, None);
        for (count, list) in axes.iter().enumerate() {
            if list.len() > MAX_AXES {
                return None;
            }
            call.words[call::COUNTS + count] = Term::constant(list.len() as i64);
            call.words.extend(list.iter().flatten().cloned());
        }
        call.scratch = Some(routine(self.isa.width, Kind::Product, types).1);
        Some(Calls::Product(call))
    }

    fn convolution(
        &mut self,
        plan: &mut Plan,
        op: &Op,
        operands: &[ValueId],
        results: &[ValueId],
    ) -> Option<Calls> {
        let (&[input, kernel], &[out]) = (operands, results) else {
            return None;
        };
        let fixed = fixed(plan, operands).filter(|&operand| operand == 1);
        let shapes: [ArrayShape; 3] =
            [input, kernel, out].map(|value| plan.values[value].shape.clone());
        let types = shapes.each_ref().map(|shape| shape.element_type);
        let [input, weights, output] = &shapes;
        let made = Convolution::new(self.isa, op, [input, weights, output], fixed.is_some())?;
        let (padding, parts) = made.parts()?;
        let kept = made.kept_bytes().and_then(|bytes| {
            let source = constant(plan, kernel)?;
            // SAFETY: the constant is the kernel, the memory as large as the convolution says and
            // aligned to 64.
            self.packed(bytes, |kept| unsafe {
                made.keep(source.bytes().as_ptr(), kept);
            })
        });
        let before = padding.as_ref().map_or(0, |(_, bytes)| *bytes);
        let mut products = Vec::new();
        for part in parts {
            self.scratch = self.scratch.max(before + part.scratch);
            let fixed = fixed.filter(|_| part.kind == Kind::Product);
            let kept = kept.zip(part.kept);
            products.push(self.call(part.kind, types, part.axes, fixed, false, kept));
        }
        let repair = match made.is_bordered() && types[2].is_float() {
            true => Some(Repair {
                step: convolution_kernel(plan, op, operands, results)?,
                elements: made.elements(),
                types: [types[1], types[2]],
            }),
            false => None,
        };
        Some(Calls::Convolution(Convolved {
            padding,
            products,
            repair,
        }))
    }

    /// A constant with an operand's packed form.
    fn packed(&mut self, bytes: usize, pack: impl FnOnce(*mut u8)) -> Option<usize> {
        let mut packed = AlignedBytes::zeroed(bytes);
        pack(packed.as_mut_slice().as_mut_ptr());
        let shape = ArrayShape::new(ElementType::U8, &[i64::try_from(bytes).ok()?]);
        let literal = Literal::from_bytes(&shape, packed.as_slice()).ok()?;
        self.constants.push(literal);
        Some(self.first + self.constants.len() - 1)
    }

    /// The number of the function that a custom call is; `None` where its name is not one of C's, or
    /// taken.
    pub(super) fn custom(&mut self, target: &str) -> Option<usize> {
        if !is_identifier(target) || is_outside(target) {
            return None;
        }
        let known = self.custom.iter().position(|known| known == target);
        Some(known.unwrap_or_else(|| {
            self.custom.push(target.to_owned());
            self.custom.len() - 1
        }))
    }

    /// A constant with a text that ends with 0, as in C.
    pub(super) fn text(&mut self, text: &str) -> Option<usize> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        let shape = ArrayShape::new(ElementType::U8, &[bytes.len() as i64]);
        self.constants
            .push(Literal::from_bytes(&shape, &bytes).ok()?);
        Some(self.first + self.constants.len() - 1)
    }

    /// A constant with these words.
    pub(super) fn constant(&mut self, words: &[i64]) -> Option<usize> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let shape = ArrayShape::new(ElementType::S64, &[words.len() as i64]);
        let literal = Literal::from_bytes(&shape, &bytes).ok()?;
        let known = self.constants.iter().position(|known| *known == literal);
        Some(
            self.first
                + known.unwrap_or_else(|| {
                    self.constants.push(literal);
                    self.constants.len() - 1
                }),
        )
    }

    fn call(
        &self,
        kind: Kind,
        types: [ElementType; 3],
        axes: &Axes,
        fixed: Option<usize>,
        adds: bool,
        kept: Option<(usize, usize)>,
    ) -> Call {
        let mut words = vec![0i64; call::HEAD];
        let lists = [&axes.batch, &axes.rows, &axes.columns, &axes.depth];
        for (count, list) in lists.into_iter().enumerate() {
            words[call::COUNTS + count] = list.len() as i64;
            for axis in list {
                words.extend([
                    axis.size as i64,
                    axis.lhs as i64,
                    axis.rhs as i64,
                    axis.out as i64,
                ]);
            }
        }
        for (number, start) in axes.starts.into_iter().enumerate() {
            words[call::STARTS + number] = start as i64;
        }
        words[call::ADDS] = i64::from(adds);
        words[call::FIXED] = fixed.map_or(2, |operand| operand as i64);
        words[call::WAYS] = self.isa.first_level_ways.map_or(0, i64::from);
        let extensions = [
            self.isa.bf16,
            self.isa.vnni,
            self.isa.dot_product,
            self.isa.int8_matrices,
        ];
        let bits = extensions.into_iter().enumerate();
        words[call::EXTENSIONS] = bits.map(|(bit, has)| i64::from(has) << bit).sum();
        for (number, ty) in types.into_iter().enumerate() {
            let place = ElementType::ALL.iter().position(|&known| known == ty);
            words[call::TYPES + number] = place.unwrap_or(0) as i64;
        }
        Call {
            routine: routine(self.isa.width, kind, types).0,
            scratch: None,
            words: words.into_iter().map(Term::constant).collect(),
            kept,
        }
    }
}

/// The constant that a value is.
fn constant(plan: &Plan, value: ValueId) -> Option<&Literal> {
    match plan.buffers[plan.values[value].buffer].place {
        Place::Constant(number) => plan.constants.get(number),
        _ => None,
    }
}

/// Which of two operands is a constant that is worth packing before.
fn fixed(plan: &Plan, operands: &[ValueId]) -> Option<usize> {
    let fixed = |&operand: &usize| {
        let large = |value| plan.values[value].shape.byte_size() >= Some(WORTH_PACKING);
        let value = operands.get(operand).copied();
        value.is_some_and(|value| constant(plan, value).is_some() && large(value))
    };
    [1, 0].into_iter().find(fixed)
}

/// The dimensions of a product with open sizes: of the batch, the rows, the columns and the depth, of
/// each its size and its strides in the left operand, the right one and the result. They are in
/// the order of [`DotView`].
fn open_axes(
    plan: &Plan,
    contraction: &Contraction,
    operands: &[ValueId],
) -> Option<[Vec<[Term; 4]>; 4]> {
    if !contraction.is_consistent() {
        return None;
    }
    let sizes = label_sizes(plan, contraction, operands)?;
    let flat = |labels: &[tegula_fusion::Labels]| -> Vec<Label> {
        labels.iter().flatten().copied().collect()
    };
    let (left, right) = (flat(&contraction.lhs), flat(&contraction.rhs));
    let out = &contraction.out[..];
    let stride = |labels: &[Label], label: Label| -> Term {
        let inner = labels.iter().rev().take_while(|&&other| other != label);
        let inner = inner.filter_map(|&other| sizes.get(other as usize));
        match labels.contains(&label) {
            true => inner.fold(Term::constant(1), |product, size| product.mul(size)),
            false => Term::constant(0),
        }
    };
    let axis = |label: Label| -> Option<[Term; 4]> {
        let size = sizes.get(label as usize)?.clone();
        let [lhs, rhs, out] = [&left[..], &right, out].map(|labels| stride(labels, label));
        Some([size, lhs, rhs, out])
    };
    let pick = |order: &[Label], wanted: &dyn Fn(&Label) -> bool| -> Option<Vec<[Term; 4]>> {
        order
            .iter()
            .filter(|label| wanted(label))
            .map(|&label| axis(label))
            .collect()
    };
    let (in_left, in_right) = (|l: &Label| left.contains(l), |l: &Label| right.contains(l));
    Some([
        pick(out, &|l| in_left(l) && in_right(l))?,
        pick(out, &|l| !in_right(l))?,
        pick(out, &|l| !in_left(l))?,
        pick(&left, &|l| !out.contains(l))?,
    ])
}

/// The routine of a kind, and the one that says how much scratch memory it takes.
fn routine(
    width: VectorWidth,
    kind: Kind,
    types: [ElementType; 3],
) -> (&'static str, &'static str) {
    use ElementType::{F32, F64};
    macro_rules! of_width {
        ($width:literal) => {{
            let product = |types: [ElementType; 3]| match types {
                [F32, F32, F32] => (
                    concat!("tegula_rt_product_", $width, "_f32"),
                    concat!("tegula_rt_scratch_", $width, "_f32"),
                ),
                [F64, F64, F64] => (
                    concat!("tegula_rt_product_", $width, "_f64"),
                    concat!("tegula_rt_scratch_", $width, "_f64"),
                ),
                _ => (
                    concat!("tegula_rt_product_", $width, "_any"),
                    concat!("tegula_rt_scratch_", $width, "_any"),
                ),
            };
            match kind {
                Kind::Product => product(types),
                Kind::Depthwise => (concat!("tegula_rt_depthwise_", $width), ""),
                Kind::Planes => (concat!("tegula_rt_planes_", $width), ""),
            }
        }};
    }
    match width {
        VectorWidth::Portable => of_width!("portable"),
        VectorWidth::Neon => of_width!("neon"),
        VectorWidth::Avx2 => of_width!("avx2"),
        VectorWidth::Avx512 => of_width!("avx512"),
    }
}
