//! Selects the routines of `crates/rt` that a program calls, and describes each call.
//!
//! A description is an array of words, which are terms over the program's open sizes, so that a
//! product is one call at any sizes. A convolution with known sizes is split into products as in a
//! run; one with [open sizes](open_convolution) is split by the routine that is called.

pub(super) mod open_convolution;

use super::arrays::{ArrayCall, array_call, element_type_number};
use super::header::is_taken;
use super::is_identifier;
use super::link::{Tiles, routines_for};
use super::open_product::open_axes;
use super::routine_names::routine;
use super::routines::is_outside;
use super::weights::{HASH, Weights};
use crate::error::Error;
use crate::library::convolution::{BorderWords, Convolution};
use crate::library::dot::{Dot, axes};
use open_convolution::{Function, OpenConvolution};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_custom_call::is_library_routine;
use tegula_expr::Term;
use tegula_fusion::{Contraction, LibraryOp};
use tegula_ir::{AlignedBytes, ArrayShape, Dim, ElementType, Literal, Op};
use tegula_linalg::gemm::{Axes, MAX_COMPILED_AXES, Product};
use tegula_linalg::planes::ImageBounds;
use tegula_plan::dot::DotView;
use tegula_plan::{Place, Plan, Step, ValueId, convolution_kernel};
use tegula_rt::{Kind, PREPARED_BYTES, call};
use tegula_target::{Architecture, CpuFeatures, IsaLevel, VectorWidth};

/// The minimum bytes of a constant operand that is packed when the program is compiled: half of the
/// minimum for packing in a run.
const WORTH_PACKING: i64 = 1 << 13;

/// A call of a routine.
pub(super) struct Call {
    /// The name of the routine. For a product, it prepares the product; for other kinds of calls,
    /// it computes the result.
    pub routine: &'static str,
    pub kind: Kind,
    /// The routine that computes the bytes of scratch memory, if these depend on open sizes.
    pub scratch: Option<&'static str>,
    pub words: Vec<Term>,
    /// The constant that contains an operand's packed form, and the offset in it.
    pub kept: Option<(usize, usize)>,
    /// The operand that is not read because its packed form is.
    pub unread: Option<usize>,
    /// The bytes of a product's tables.
    pub tables: usize,
    /// The product's number among those that are prepared at the beginning.
    pub prepared: Option<usize>,
}

/// How often a run executes a step.
#[derive(Clone, Copy)]
enum Often {
    /// At most once: in a branch.
    Perhaps,
    Once,
    /// In a loop.
    Repeatedly,
}

/// The products that are prepared at the beginning of the program.
#[derive(Default)]
pub(super) struct Ready {
    pub all: Vec<Prepared>,
    /// The bytes of memory that they take.
    pub bytes: usize,
}

/// A product that is prepared once.
pub(super) struct Prepared {
    /// The routine that prepares it.
    pub routine: &'static str,
    pub words: Vec<i64>,
    /// Its offset in the arena's memory for prepared products, in bytes.
    pub offset: usize,
}

/// The implementation of a step.
pub(super) enum Calls {
    Array(ArrayCall),
    Product(Call),
    Convolution(Convolved),
    OpenConvolution(Box<OpenConvolution>),
}

/// A convolution as calls of products.
pub(super) struct Convolved {
    /// The images that are computed one after the other, if their number is open.
    pub images: Option<Images>,
    /// The words that describe the copy with a border, and its bytes.
    pub padding: Option<BorderWords>,
    pub products: Vec<Call>,
    /// Recomputes the result if it has NaN and the kernel is not finite: padding must have no
    /// effect, but zero times infinity is NaN.
    pub repair: Option<Repair>,
}

/// Images that are each computed by the same calls.
pub(super) struct Images {
    pub count: Term,
    /// The bytes of one image in the input and in the result.
    pub bytes: [i64; 2],
}

impl Images {
    /// The images of a convolution, if only their number is open and they are contiguous.
    fn new(op: &Op, [input, kernel, out]: &[ArrayShape; 3]) -> Option<Self> {
        let Op::Convolution {
            dims,
            batch_group_count: 1,
            ..
        } = op
        else {
            return None;
        };
        let first = (dims.input_batch, dims.output_batch) == (0, 0);
        let [own, results] = [input, out].map(|shape| shape.dims.first().map(Dim::term));
        let is_open = own.as_ref().is_some_and(|n| n.as_constant().is_none());
        let one = [input, out].map(|shape| one_image(shape).byte_size());
        kernel.static_dims()?;
        (first && is_open && own == results).then_some(Self {
            count: own?,
            bytes: [one[0]?, one[1]?],
        })
    }
}

/// The shape with size one in the first dimension.
fn one_image(shape: &ArrayShape) -> ArrayShape {
    let mut shape = shape.clone();
    if let Some(first) = shape.dims.first_mut() {
        *first = Dim::Static(1);
    }
    shape
}

pub(super) struct Repair {
    pub step: Step,
    /// The number of elements of the kernel and of the result.
    pub elements: [Term; 2],
    pub types: [ElementType; 2],
}

/// The routine that computes a call's scratch memory, the call's words, and the functions that are
/// passed to it.
pub(super) type Scratch<'a> = (&'static str, &'a [Term], &'a [Function]);

/// All calls of a program.
pub(super) struct Library {
    isa: CpuFeatures,
    architecture: Architecture,
    /// The reason why a step that should be calls of routines cannot be.
    pub missing: Option<Error>,
    /// The calls of steps, by the steps' first results.
    pub calls: FxHashMap<ValueId, Calls>,
    pub ready: Ready,
    /// Constants in addition to the plan's.
    pub constants: Vec<Literal>,
    /// The functions that custom calls call, which the user supplies when linking the object, in
    /// the order of the statuses that report their failure.
    pub custom: Vec<String>,
    /// The bytes of scratch memory for calls with known sizes.
    pub scratch: usize,
    /// The tiles that products call.
    pub tiles: Tiles,
    /// The constants in the separate file, if there is one.
    pub weights: Option<Weights>,
    /// The constant that a call compares with the file's header.
    hash: Option<usize>,
    /// Constants of the plan that a run computes each time, so that its products do not pack them.
    pub computed_each_time: FxHashSet<ValueId>,
    /// The number of constants of the plan.
    first: usize,
}

impl Library {
    pub(super) fn new(cpu: IsaLevel, plan: &Plan) -> Self {
        let isa = CpuFeatures {
            // Programs must request the state of matrix registers from the system, which a library
            // should not do.
            amx_bf16: false,
            amx_int8: false,
            ..CpuFeatures::up_to(cpu)
        };
        Self {
            isa,
            architecture: cpu.architecture(),
            missing: None,
            calls: FxHashMap::default(),
            ready: Ready::default(),
            constants: Vec::new(),
            custom: Vec::new(),
            scratch: 0,
            tiles: Tiles::default(),
            weights: None,
            hash: None,
            computed_each_time: FxHashSet::default(),
            first: plan.constants.len(),
        }
    }

    /// Finds the routine calls that execute a step. Returns false if there are none; the step is
    /// then compiled in another way.
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
        let calls = match calls {
            Some(calls) => Some(calls),
            None => {
                let mut numbers = Vec::new();
                let width = self.width();
                let first = self.first + self.constants.len();
                let call = array_call(width, plan, (op, operands, results), &mut |literal| {
                    numbers.push(literal);
                    first + numbers.len() - 1
                });
                self.constants.extend(numbers);
                call.map(|mut call| {
                    if let Some(bytes) = call.known_scratch() {
                        self.scratch = self.scratch.max(bytes);
                        call.scratch = None;
                    }
                    Calls::Array(call)
                })
            }
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

    /// Finds the products that are computed several times, in loops or because others have the same
    /// sizes: they are prepared once, at the beginning of the program.
    pub(super) fn prepare(&mut self, steps: &[Step]) {
        let mut times: FxHashMap<(&'static str, Vec<i64>), usize> = FxHashMap::default();
        self.products(steps, Often::Once, &mut |call, often, _| {
            if let Some(words) = known_words(call) {
                *times.entry((call.routine, words)).or_default() += match often {
                    Often::Perhaps => 0,
                    Often::Once => 1,
                    Often::Repeatedly => 2,
                };
            }
        });
        self.products(steps, Often::Once, &mut |call, _, ready| {
            let Some(words) = known_words(call) else {
                return;
            };
            let known = ready.all.iter();
            let mut known = known.map(|known| (known.routine, &known.words));
            let number = known.position(|known| known == (call.routine, &words));
            if number.is_some() {
                call.prepared = number;
            } else if times.get(&(call.routine, words.clone())) >= Some(&2) {
                call.prepared = Some(ready.all.len());
                ready.all.push(Prepared {
                    routine: call.routine,
                    words,
                    offset: ready.bytes,
                });
                ready.bytes += PREPARED_BYTES + call.tables;
            }
        });
    }

    /// Calls a function for each product of steps, with how often it is computed.
    fn products(
        &mut self,
        steps: &[Step],
        often: Often,
        visit: &mut dyn FnMut(&mut Call, Often, &mut Ready),
    ) {
        for step in steps {
            let out = match step {
                Step::Library { results, .. } => results.first(),
                _ => None,
            };
            match out.and_then(|out| self.calls.get_mut(out)) {
                Some(Calls::Product(call)) => visit(call, often, &mut self.ready),
                Some(Calls::Convolution(convolved)) => {
                    let often = match convolved.images {
                        Some(_) => Often::Repeatedly,
                        None => often,
                    };
                    for call in &mut convolved.products {
                        visit(call, often, &mut self.ready);
                    }
                }
                _ => {}
            }
            let inside = match (step, often) {
                (Step::While { .. }, _) => Often::Repeatedly,
                (Step::Conditional { .. }, Often::Once) => Often::Perhaps,
                _ => often,
            };
            for block in step.blocks() {
                self.products(block, inside, visit);
            }
        }
    }

    /// Whether a call needs any scratch memory.
    pub(super) fn has_scratch(&self) -> bool {
        self.scratch > 0 || self.ready.bytes > 0 || self.open().next().is_some()
    }

    /// For each call whose scratch memory depends on open sizes: the routine that computes it, with
    /// its arguments.
    pub(super) fn open(&self) -> impl Iterator<Item = Scratch<'_>> {
        self.calls.values().flat_map(|calls| {
            match calls {
                Calls::Product(call) => call.scratch.map(|of| vec![(of, &call.words[..], &[][..])]),
                Calls::Array(call) => call.scratch.map(|of| {
                    let few = call.for_few.iter().map(|few| &few.words);
                    let all = [&call.words].into_iter().chain(few);
                    all.map(|words| (of, &words[..], &[][..])).collect()
                }),
                Calls::Convolution(_) => None,
                Calls::OpenConvolution(call) => Some(vec![call.scratch()]),
            }
            .unwrap_or_default()
        })
    }

    /// The instructions that may be used.
    pub(super) fn isa(&self) -> CpuFeatures {
        self.isa
    }

    /// Declares that any tile may be called.
    pub(super) fn all_tiles(&mut self) {
        self.tiles.add_all();
    }

    /// The widest vectors that may be used.
    pub(super) fn width(&self) -> VectorWidth {
        self.isa.width
    }

    /// A constant by number: the plan's constants come first, then these.
    pub(super) fn constant_of<'l>(&'l self, plan: &'l Plan, number: usize) -> Option<&'l Literal> {
        match number.checked_sub(self.first) {
            Some(own) => self.constants.get(own),
            None => plan.constants.get(number),
        }
    }

    /// The number of the constant that a call compares with the header of the file of constants.
    pub(super) fn hash(&mut self) -> Option<usize> {
        self.weights.as_ref()?;
        if self.hash.is_none() {
            let zeros = Literal::zeros(&ArrayShape::new(ElementType::U8, &[HASH as i64]));
            self.hash = Some(self.literal(zeros.ok()?));
        }
        self.hash
    }

    /// Sets the constant that [`Self::hash`] made to the hash of the file of constants.
    ///
    /// # Errors
    /// [`Self::hash`] made no constant.
    pub(super) fn set_hash(&mut self, hash: &[u8; HASH]) -> Result<(), Error> {
        let shape = ArrayShape::new(ElementType::U8, &[HASH as i64]);
        let own = self.hash.and_then(|number| number.checked_sub(self.first));
        let constant = own.and_then(|own| self.constants.get_mut(own));
        match (constant, Literal::from_bytes(&shape, hash)) {
            (Some(constant), Ok(literal)) => *constant = literal,
            _ => {
                return Err(Error::Bug(
                    "the file of constants has no constant for its hash".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// The offset of a constant in the separate file of constants; `None` if it is not in that
    /// file.
    pub(super) fn in_file(&mut self, plan: &Plan, number: usize) -> Option<usize> {
        let mut weights = self.weights.take()?;
        let constant = self.constant_of(plan, number);
        let place = constant.and_then(|constant| weights.place(number, constant));
        self.weights = Some(weights);
        place
    }

    /// Collects the values that steps read.
    pub(super) fn read(&self, steps: &[Step], values: &mut FxHashSet<ValueId>) {
        for step in steps {
            match step {
                Step::Kernel { args, .. } => values.extend(args),
                Step::Copy { from, .. } => values.extend([*from]),
                Step::Library {
                    operands, results, ..
                } => {
                    let calls = results.first().and_then(|out| self.calls.get(out));
                    let unread = match calls {
                        Some(Calls::Product(call)) => call.unread,
                        _ => None,
                    };
                    if let Some(Calls::Convolution(Convolved {
                        repair: Some(repair),
                        ..
                    })) = calls
                    {
                        self.read(core::slice::from_ref(&repair.step), values);
                    }
                    let read = operands.iter().enumerate();
                    let read = read.filter(|(number, _)| Some(*number) != unread);
                    values.extend(read.map(|(_, value)| *value));
                }
                Step::While { predicate, .. } => values.extend([*predicate]),
                Step::Conditional { selector, .. } => values.extend([*selector]),
                Step::Strips { .. } => {}
            }
            for block in step.blocks() {
                self.read(block, values);
            }
        }
    }

    /// Adds a constant and returns its number.
    pub(super) fn literal(&mut self, literal: Literal) -> usize {
        self.constants.push(literal);
        self.first + self.constants.len() - 1
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
            let axes = axes(&view).filter(|axes| fit(counts(axes)))?;
            let mut fixed = self.fixed(plan, operands);
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
                // If an operand cannot be packed before for a product that is added to an array,
                // each call packs it.
                let packed = Product::new(self.isa, types, axes.clone(), fixed)?;
                fixed = fixed.filter(|_| packed.adding().is_some());
            }
            let tables = product.table_bytes().next_multiple_of(64);
            let bytes = PREPARED_BYTES + tables + product.scratch_bytes(1);
            self.scratch = self.scratch.max(bytes);
            let kept = product.kept_bytes().and_then(|(operand, bytes)| {
                let source = constant(plan, *operands.get(operand)?)?;
                // SAFETY: the constant is the operand; the memory is as large as the product
                // requires, and aligned to 64.
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
        // Whether there is such a product depends on the types only.
        let tried = Product::new(self.isa, types, Axes::default(), None)?;
        if adds {
            tried.adding()?;
        }
        let axes = open_axes(plan, contraction, &[lhs, rhs])?;
        if !fit(axes.each_ref().map(Vec::len)) {
            return None;
        }
        let mut call = self.call(Kind::Product, types, &Axes::default(), None, adds, None);
        for (count, list) in axes.iter().enumerate() {
            call.words[call::COUNTS + count] = Term::constant(list.len() as i64);
            call.words.extend(list.iter().flatten().cloned());
        }
        call.scratch = Some(routine(self.isa.width, Kind::Product, types).1);
        self.tiles.add_all();
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
        let fixed = self.fixed(plan, operands).filter(|&operand| operand == 1);
        let shapes: [ArrayShape; 3] =
            [input, kernel, out].map(|value| plan.values[value].shape.clone());
        let types = shapes.each_ref().map(|shape| shape.element_type);
        // A kernel that is packed when the program is compiled is packed for one image.
        let images = Images::new(op, &shapes).filter(|_| fixed.is_some());
        let is_open = shapes.iter().any(|shape| shape.static_dims().is_none());
        if is_open && images.is_none() {
            return self.open_convolution(plan, op, (operands, results), fixed);
        }
        let [input, weights, output] = match &images {
            Some(_) => &[
                one_image(&shapes[0]),
                shapes[1].clone(),
                one_image(&shapes[2]),
            ],
            None => &shapes,
        };
        let made = Convolution::new(self.isa, op, [input, weights, output], fixed.is_some())?;
        let (padding, parts) = made.parts()?;
        if !parts.iter().all(|part| fit(counts(part.axes))) {
            return None;
        }
        let kept = made.kept_bytes().and_then(|bytes| {
            let source = constant(plan, kernel)?;
            // SAFETY: the constant is the kernel; the memory is as large as the convolution
            // requires, and aligned to 64.
            self.packed(bytes, |kept| unsafe {
                made.keep(source.bytes().as_ptr(), kept);
            })
        });
        let before = padding.as_ref().map_or(0, |(_, bytes)| *bytes);
        let mut products = Vec::new();
        for part in parts {
            let ready = match part.kind {
                Kind::Product => PREPARED_BYTES,
                Kind::Depthwise | Kind::Planes => 0,
            };
            self.scratch = self.scratch.max(before + ready + part.scratch);
            let fixed = fixed.filter(|_| part.kind == Kind::Product);
            let kept = kept.zip(part.kept);
            let mut call = self.call(part.kind, types, part.axes, fixed, false, kept);
            if part.kind == Kind::Planes {
                call.words.extend(bounds_words(part.bounds));
            }
            products.push(call);
        }
        let repair = match made.is_bordered() && types[2].is_float() {
            true => Some(Repair {
                step: convolution_kernel(plan, op, operands, results)?,
                elements: {
                    let [kernel, image] = made.elements().map(|n| Term::constant(n as i64));
                    let number = images.as_ref().map(|images| image.mul(&images.count));
                    [kernel, number.unwrap_or(image)]
                },
                types: [types[1], types[2]],
            }),
            false => None,
        };
        Some(Calls::Convolution(Convolved {
            images,
            padding,
            products,
            repair,
        }))
    }

    /// Which of two operands is a constant that is worth prepacking (0 or 1); the same choice as in
    /// `tegula run`.
    fn fixed(&self, plan: &Plan, operands: &[ValueId]) -> Option<usize> {
        let fixed = |&operand: &usize| {
            let large = |value| plan.values[value].shape.byte_size() >= Some(WORTH_PACKING);
            let value = operands.get(operand).copied();
            value.is_some_and(|value| {
                let is_constant = constant(plan, value).is_some();
                is_constant && large(value) && !self.computed_each_time.contains(&value)
            })
        };
        [1, 0].into_iter().find(fixed)
    }

    /// Adds a constant with an operand's packed form.
    fn packed(&mut self, bytes: usize, pack: impl FnOnce(*mut u8)) -> Option<usize> {
        let mut packed = AlignedBytes::zeroed(bytes);
        pack(packed.as_mut_slice().as_mut_ptr());
        let shape = ArrayShape::new(ElementType::U8, &[i64::try_from(bytes).ok()?]);
        let literal = Literal::from_bytes(&shape, packed.as_slice()).ok()?;
        Some(self.literal(literal))
    }

    /// The number of the function for a custom call's target; `None` if the name is not a C
    /// identifier, or taken, or that of a routine that objects use.
    pub(super) fn custom(&mut self, target: &str) -> Option<usize> {
        let is_free = is_identifier(target) && !is_taken(target) && !is_outside(target);
        if !is_free || is_library_routine(target) {
            return None;
        }
        let known = self.custom.iter().position(|known| known == target);
        Some(known.unwrap_or_else(|| {
            self.custom.push(target.to_owned());
            self.custom.len() - 1
        }))
    }

    /// Adds a constant with a null-terminated text.
    pub(super) fn text(&mut self, text: &str) -> Option<usize> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        let shape = ArrayShape::new(ElementType::U8, &[bytes.len() as i64]);
        let literal = Literal::from_bytes(&shape, &bytes).ok()?;
        Some(self.literal(literal))
    }

    /// Adds a constant with these words.
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

    pub(super) fn call(
        &mut self,
        kind: Kind,
        types: [ElementType; 3],
        axes: &Axes,
        fixed: Option<usize>,
        adds: bool,
        kept: Option<(usize, usize)>,
    ) -> Call {
        let mut unread = None;
        let mut tables = 0;
        if kind == Kind::Product
            && let Some(product) = Product::new(self.isa, types, axes.clone(), fixed)
        {
            self.tiles.add(&product);
            tables = product.table_bytes().next_multiple_of(64);
            unread = fixed.filter(|_| kept.is_some() && !product.needs_source());
        }
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
            words[call::TYPES + number] = element_type_number(ty);
        }
        Call {
            routine: routine(self.isa.width, kind, types).0,
            kind,
            scratch: None,
            words: words.into_iter().map(Term::constant).collect(),
            kept,
            unread,
            tables,
            prepared: None,
        }
    }
}

/// The words of a product with known sizes.
fn known_words(call: &Call) -> Option<Vec<i64>> {
    let suits = call.kind == Kind::Product && call.scratch.is_none();
    let words = call.words.iter().map(Term::as_constant);
    suits.then(|| words.collect()).flatten()
}

/// The words after the axes that describe the bounds of images.
fn bounds_words(bounds: Option<ImageBounds>) -> [Term; 4] {
    let words = bounds.map_or([0; 4], |bounds| {
        let [first, size] = [bounds.first, bounds.size.map(|n| n as isize)];
        [first[0], first[1], size[0], size[1]]
    });
    words.map(|word| Term::constant(word as i64))
}

/// The number of dimensions of each kind in a product.
fn counts(axes: &Axes) -> [usize; 4] {
    [&axes.batch, &axes.rows, &axes.columns, &axes.depth].map(|list| list.len())
}

/// Whether routines support this many dimensions of each kind, with the same decisions as in a run.
fn fit([batch, rows, columns, depth]: [usize; 4]) -> bool {
    batch + rows.max(columns) <= MAX_COMPILED_AXES && depth <= MAX_COMPILED_AXES
}

/// The constant that is a value.
fn constant(plan: &Plan, value: ValueId) -> Option<&Literal> {
    match plan.buffers[plan.values[value].buffer].place {
        Place::Constant(number) => plan.constants.get(number),
        _ => None,
    }
}
