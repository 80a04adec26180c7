//! Convolutions as [products](tegula_linalg::gemm): the rows are the positions of the
//! window and the batch, the columns the output features, the depth the taps and
//! the input features. Nothing is gathered before: strides that overlap do it.
//!
//! - An input whose windows reach outside of it is copied with its border first.
//! - A base dilation gives one product for each phase, whose width is columns (see [`geometry`]).
//! - Groups are the product's batch; many groups of one feature each go to loops of their own
//!   ([`tegula_linalg::depthwise`] with the features last, [`tegula_linalg::planes`] with them first).
//! - What has too many phases or too large a border is computed by its definition.

mod geometry;
mod padding;
mod plain;

use geometry::{Geometry, Phase, Spatial};
use padding::Padding;
use plain::{Output, Plain};
use smallvec::{SmallVec, smallvec};
use std::cmp::Reverse;
use std::fmt;
use tegula_ir::helpers::ConvolutionGroups;
use tegula_ir::{ArrayShape, ElementType, Op};
use tegula_linalg::depthwise::Direct;
use tegula_linalg::gemm::{Axes, Axis, MAX_AXES, PackedLayout, Product};
use tegula_linalg::planes::{ImageBounds, Planes};
use tegula_linalg::thread_pool::ThreadPool;
use tegula_rt::Kind;
use tegula_target::CpuFeatures;

/// The most products of one convolution.
const MAX_PRODUCTS: usize = 64;
/// A bordered copy is at most so many times as large as input and output together.
const MAX_GROWTH: i64 = 4;
/// Elements that a bordered copy may have in any case.
const SMALL: i64 = 1 << 16;

/// A convolution ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Convolution {
    geometry: Geometry,
    types: [ElementType; 3],
    way: Way,
    /// Whether a window reaches outside of the input.
    bordered: bool,
}

/// How it is computed.
#[derive(Clone, Debug)]
enum Way {
    /// Products one after the other, of a bordered copy if there is one.
    Products {
        padding: Option<Box<(Padding, usize)>>,
        products: Vec<Step>,
    },
    /// Element by element.
    Plain,
}

#[derive(Clone, Debug)]
struct Step {
    axes: Box<Axes>,
    form: Form,
    /// Where images are whose windows reach outside of them.
    bounds: Option<ImageBounds>,
}

/// What computes a product.
#[derive(Clone, Debug)]
enum Form {
    Product(Box<Product>),
    Direct(Box<Direct>),
    Planes(Box<Planes>),
}

/// A copy with a border, in words, and its bytes.
pub(crate) type Border = (Vec<i64>, usize);

/// One product of a convolution, for who calls it elsewhere.
pub(crate) struct Part<'a> {
    pub(crate) kind: Kind,
    pub(crate) axes: &'a Axes,
    /// Where images are whose windows reach outside of them.
    pub(crate) bounds: Option<ImageBounds>,
    /// Where its packed kernel begins, if the kernel is packed once.
    pub(crate) kept: Option<usize>,
    /// Bytes of scratch memory, tables among them.
    pub(crate) scratch: usize,
}

impl Convolution {
    /// Products and sums of a run, those with padding among them.
    pub(crate) fn operations(&self) -> f64 {
        let g = &self.geometry;
        // Of the output's elements, times those of the kernel that each is the sum of.
        let elements = [g.batch[1], g.out_features[1], g.in_features[1]];
        let elements: f64 = elements.map(|d| d.size as f64).iter().product();
        let taps = g.spatial.iter();
        let taps = taps.map(|s| s.kernel.size as f64 * s.output.size as f64);
        2.0 * elements * taps.product::<f64>()
    }

    /// Whether elements have fewer than 32 bits.
    pub(crate) fn is_narrow(&self) -> bool {
        self.types[0].bits() < 32
    }
}

impl fmt::Display for Convolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let g = &self.geometry;
        let join = |sizes: &mut dyn Iterator<Item = i64>| {
            let sizes: Vec<String> = sizes.map(|s| s.to_string()).collect();
            sizes.join("x")
        };
        let window = join(&mut g.spatial.iter().map(|s| s.kernel.size));
        let output = join(&mut g.spatial.iter().map(|s| s.output.size));
        let (from, to) = (g.in_features[0].size, g.out_features[0].size);
        write!(
            f,
            "convolution {} {window} {from}->{to} to {output}",
            self.types[0]
        )?;
        match g.groups() {
            (1, _) => Ok(()),
            (groups, _) => write!(f, " in {groups} groups"),
        }
    }
}

impl Convolution {
    /// Prepares a convolution, whose kernel may be `fixed`: the same in every run. `None` if
    /// the operation is none or there is no product of the types.
    pub(crate) fn new(
        isa: CpuFeatures,
        op: &Op,
        shapes: [&ArrayShape; 3],
        fixed: bool,
    ) -> Option<Self> {
        let Op::Convolution {
            window,
            dims,
            feature_group_count,
            batch_group_count,
            ..
        } = op
        else {
            return None;
        };
        let types = shapes.map(|s| s.element_type);
        if !tegula_fusion::is_product_of(types[0], types[1], types[2]) {
            return None;
        }
        let groups = ConvolutionGroups {
            features: *feature_group_count,
            batch: *batch_group_count,
        };
        let geometry = Geometry::new(shapes, window, dims, groups)?;
        let phases = all_phases(&geometry);
        let bordered = match &phases {
            Some(phases) => geometry
                .spatial
                .iter()
                .zip(phases)
                .any(|(spatial, phases)| reaches_outside(spatial, phases)),
            None => true,
        };
        let output = shapes[2].element_count().unwrap_or(i64::MAX);
        let how = (isa, fixed.then_some(1));
        let way = phases.and_then(|phases| products(how, &geometry, types, &phases, output));
        Some(Self {
            way: way.unwrap_or(Way::Plain),
            geometry,
            types,
            bordered,
        })
    }

    /// Whether a window reaches outside of the input.
    pub(crate) fn is_bordered(&self) -> bool {
        self.bordered
    }

    /// How many elements the kernel and the output have.
    pub(crate) fn elements(&self) -> [usize; 2] {
        let g = &self.geometry;
        let taps = g.spatial.iter().map(|s| s.kernel.size);
        let features = [g.in_features[1].size, g.out_features[0].size];
        [count(taps.chain(features)), self.output_elements()]
    }

    /// Its products, of a copy with a border if there is one, of which the words are
    /// those of [`Padding::words`]. `None` if elements are computed by the definition.
    pub(crate) fn parts(&self) -> Option<(Option<Border>, Vec<Part<'_>>)> {
        let Way::Products { padding, products } = &self.way else {
            return None;
        };
        let mut kept = self.kept_parts();
        let parts = products.iter().map(|step| {
            let (kind, kept, scratch) = match &step.form {
                Form::Product(product) => {
                    let before = kept.next().map(|(_, before)| before);
                    let before = before.filter(|_| product.kept_bytes().is_some());
                    let tables = product.table_bytes().next_multiple_of(64);
                    (Kind::Product, before, tables + product.scratch_bytes(1))
                }
                Form::Direct(direct) => (Kind::Depthwise, None, direct.table_bytes()),
                Form::Planes(planes) => (Kind::Planes, None, planes.table_bytes()),
            };
            Part {
                kind,
                axes: &step.axes,
                bounds: step.bounds,
                kept,
                scratch,
            }
        });
        let padding = padding
            .as_ref()
            .map(|padding| (padding.0.words(), padding.1));
        Some((padding, parts.collect()))
    }

    /// Bytes of scratch memory for a run on so many threads.
    pub(crate) fn scratch_bytes(&self, threads: usize) -> usize {
        let Way::Products { padding, products } = &self.way else {
            return 0;
        };
        let each = products.iter().map(|step| match &step.form {
            Form::Product(product) => product.scratch_bytes(threads),
            Form::Direct(_) | Form::Planes(_) => 0,
        });
        each.max().unwrap_or(0) + padding.as_ref().map_or(0, |padding| padding.1)
    }

    /// Its products, with where in the packed form of the kernel each has its own: the
    /// kernel is operand 1 of them all.
    fn kept_parts(&self) -> impl Iterator<Item = (&Product, usize)> {
        let steps: &[Step] = match &self.way {
            Way::Products { products, .. } => products,
            Way::Plain => &[],
        };
        let products = steps.iter().filter_map(|step| match &step.form {
            Form::Product(product) => Some(&**product),
            Form::Direct(_) | Form::Planes(_) => None,
        });
        products.scan(0, |before, product| {
            let own = *before;
            let bytes = product.kept_bytes().map_or(0, |(_, bytes)| bytes);
            *before = own + bytes.next_multiple_of(64);
            Some((product, own))
        })
    }

    /// The bytes of the kernel's packed form, if it is packed once.
    pub(crate) fn kept_bytes(&self) -> Option<usize> {
        let ends = self.kept_parts().filter_map(|(product, before)| {
            let (_, bytes) = product.kept_bytes()?;
            before.checked_add(bytes)
        });
        ends.max()
    }

    /// How the kernel is packed once, by products.
    pub(crate) fn kept_layouts(&self) -> Vec<PackedLayout> {
        let products = self.kept_parts();
        products.filter_map(|(p, _)| p.kept_layout()).collect()
    }

    /// Packs the kernel once.
    ///
    /// # Safety
    /// It is as [`Self::run`] is given it; `kept` has [`Self::kept_bytes`], aligned to 64.
    pub(crate) unsafe fn keep(&self, kernel: *const u8, kept: *mut u8) {
        for (product, before) in self.kept_parts() {
            // SAFETY: the caller promises: it is as [`Self::run`] is given it; `kept` has
            // [`Self::kept_bytes`], aligned to 64; each product has its own part.
            unsafe { product.keep(kernel, kept.add(before)) };
        }
    }

    /// Computes the convolution.
    ///
    /// # Safety
    /// The pointers lead to dense arrays of the shapes this was made for, of which
    /// `out` overlaps neither operand; `kept` to what [`Self::keep`] has made, if the kernel
    /// is packed once; `scratch` has [`Self::scratch_bytes`], aligned to 64.
    pub(crate) unsafe fn run(
        &self,
        [input, kernel]: [*const u8; 2],
        kept: *const u8,
        out: *mut u8,
        scratch: *mut u8,
        pool: &ThreadPool,
    ) {
        let (padding, products) = match &self.way {
            Way::Products { padding, products } => (padding, products),
            Way::Plain => {
                // SAFETY: the caller promises: the pointers lead to dense arrays of the shapes this
                // was made for, of which `out` overlaps neither operand; `kept` to what
                // [`Self::keep`] has made, if the kernel is packed once; `scratch` has
                // [`Self::scratch_bytes`], aligned to 64.
                return unsafe { self.by_definition([input, kernel], out, false) };
            }
        };
        // SAFETY: the caller promises: the pointers lead to dense arrays of the shapes this was
        // made for, of which `out` overlaps neither operand; `kept` to what [`Self::keep`] has
        // made, if the kernel is packed once; `scratch` has [`Self::scratch_bytes`], aligned to 64;
        // the copy and the products have their own parts of the scratch memory.
        unsafe {
            let (base, scratch) = match padding {
                Some(padding) => {
                    padding.0.copy(input, scratch);
                    (scratch.cast_const(), scratch.add(padding.1))
                }
                None => (input, scratch),
            };
            let mut parts = self.kept_parts();
            for step in products {
                match &step.form {
                    Form::Product(product) => {
                        let before = parts.next().map_or(0, |(_, before)| before);
                        let kept = kept.wrapping_add(before);
                        product.run([base, kernel], kept, out, scratch, pool);
                    }
                    Form::Direct(direct) => direct.run(base, kernel, out, pool),
                    Form::Planes(planes) => planes.run(base, kernel, out, pool),
                }
            }
            self.repair([input, kernel], out);
        }
    }

    /// A border counts as nothing, but zero times infinity is NaN: if the kernel has
    /// infinities or NaN, elements that are NaN are computed again.
    ///
    /// # Safety
    /// As [`Self::run`].
    unsafe fn repair(&self, operands: [*const u8; 2], out: *mut u8) {
        let [_, kernel_type, out_type] = self.types;
        if !self.bordered || !out_type.is_float() {
            return;
        }
        let [kernel_elements, output_elements] = self.elements();
        let kernel = (
            operands[1],
            kernel_type,
            kernel_elements,
            Special::NotFinite,
        );
        let output = (out.cast_const(), out_type, output_elements, Special::Nan);
        // Mostly the first that is looked at has none: the smaller one.
        let [first, second] = match kernel_elements < output_elements {
            true => [kernel, output],
            false => [output, kernel],
        };
        // SAFETY: the arrays have so many elements.
        unsafe {
            if any_special(first) && any_special(second) {
                self.by_definition(operands, out, true);
            }
        }
    }

    fn output_elements(&self) -> usize {
        let g = &self.geometry;
        let spatial = g.spatial.iter().map(|s| s.output.size);
        count(spatial.chain([g.batch[1].size, g.out_features[1].size]))
    }

    /// Computes elements by the definition: all, or those that are NaN.
    ///
    /// # Safety
    /// As [`Self::run`].
    unsafe fn by_definition(&self, operands: [*const u8; 2], out: *mut u8, only_nan: bool) {
        let g = &self.geometry;
        let features = g.out_features[1].size;
        let plain = Plain::new(self.types);
        let mut position: SmallVec<[i64; 3]> = smallvec![0; g.spatial.len()];
        for index in 0..self.output_elements() {
            let mut rest = index as i64;
            for (position, spatial) in position.iter_mut().zip(&g.spatial).rev() {
                *position = rest % spatial.output.size;
                rest /= spatial.output.size;
            }
            let at = Output {
                batch: rest / features,
                feature: rest % features,
                spatial: &position,
            };
            // SAFETY: the caller promises what [`Self::run`] asks for; the position is one of the
            // output.
            unsafe {
                if !only_nan || plain.is_nan(g, out, &at) {
                    plain.element(g, operands, out, &at);
                }
            }
        }
    }
}

/// The phases of each spatial dimension, if the products of them are few.
fn all_phases(geometry: &Geometry) -> Option<Vec<Vec<Phase>>> {
    // Groups of one feature each are loops of their own, which have no columns.
    let (groups, features) = geometry.groups();
    let wide = groups == 1 || features > 1;
    let mut count = 1;
    let mut all = Vec::with_capacity(geometry.spatial.len());
    for spatial in &geometry.spatial {
        let phases = spatial.phases(wide)?;
        count *= phases.len().max(1);
        if count > MAX_PRODUCTS {
            return None;
        }
        all.push(phases);
    }
    Some(all)
}

fn reaches_outside(spatial: &Spatial, phases: &[Phase]) -> bool {
    let mut reaches = phases.iter().filter_map(Phase::reach);
    reaches.any(|(low, end)| low < 0 || end > spatial.input.size)
}

/// The products of a convolution, of which an operand may be the same in every run; `None` if a
/// border would be too large or the numbers do not fit.
fn products(
    (isa, fixed): (CpuFeatures, Option<usize>),
    geometry: &Geometry,
    types: [ElementType; 3],
    phases: &[Vec<Phase>],
    output_elements: i64,
) -> Option<Way> {
    let mut geometry = geometry.clone();
    let mut reach: SmallVec<[(i64, i64); 6]> =
        geometry.input_dims.iter().map(|&size| (0, size)).collect();
    let mut bordered = false;
    for (spatial, phases) in geometry.spatial.iter().zip(phases) {
        if reaches_outside(spatial, phases) {
            let reaches = || phases.iter().filter_map(Phase::reach);
            let low = reaches().map(|(low, _)| low).min()?;
            let end = reaches().map(|(_, end)| end).max()?;
            *reach.get_mut(spatial.input_dim)? = (low, end);
            bordered = true;
        }
    }
    let mut padding = None;
    if bordered {
        if let Some(step) = planes_without_border(isa, &geometry, types, phases) {
            let products = vec![step];
            return Some(Way::Products { padding, products });
        }
        let element = types[0].storage_bytes();
        let (copy, sizes) = Padding::new(&geometry.input_dims, &reach, element)?;
        let product = |sizes: &[i64]| sizes.iter().try_fold(1i64, |n, &s| n.checked_mul(s));
        let elements = product(&sizes)?;
        let both = product(&geometry.input_dims)?.checked_add(output_elements)?;
        if elements > SMALL.max(both.saturating_mul(MAX_GROWTH)) {
            return None;
        }
        let bytes = usize::try_from(elements).ok()?.checked_mul(element)?;
        padding = Some(Box::new((copy, bytes.next_multiple_of(64))));
        restride(&mut geometry, &sizes)?;
    }
    let mut products = Vec::new();
    let mut chosen: SmallVec<[Phase; 3]> = SmallVec::new();
    each_choice(phases, &mut chosen, &mut |chosen| {
        let axes = axes(&geometry, chosen, &reach)?;
        let form = if let Some(direct) = Direct::new(isa, types, &axes) {
            Form::Direct(Box::new(direct))
        } else if let Some(planes) = Planes::new(isa, types, &axes, None) {
            Form::Planes(Box::new(planes))
        } else {
            Form::Product(Box::new(Product::new(isa, types, axes.clone(), fixed)?))
        };
        let axes = Box::new(axes);
        let bounds = None;
        products.push(Step { axes, form, bounds });
        Some(())
    })?;
    Some(Way::Products { padding, products })
}

/// The loop for windows that reach outside of images, which leaves out what is not there, if it is one of
/// [those](Planes::new) that can: nothing is copied.
fn planes_without_border(
    isa: CpuFeatures,
    geometry: &Geometry,
    types: [ElementType; 3],
    phases: &[Vec<Phase>],
) -> Option<Step> {
    let ([lines, columns], [line_phases, column_phases]) = (&geometry.spatial[..], phases) else {
        return None;
    };
    let (&[line], &[column]) = (&line_phases[..], &column_phases[..]) else {
        return None;
    };
    // A line's neighbours are the columns, and the lines follow each other.
    if [columns.input.stride, columns.output.stride] != [1, 1]
        || lines.input.stride != columns.input.size
    {
        return None;
    }
    let whole = |&size: &i64| (0, size);
    let whole: SmallVec<[(i64, i64); 6]> = geometry.input_dims.iter().map(whole).collect();
    let axes = axes(geometry, &[line, column], &whole)?;
    let bounds = ImageBounds {
        first: [line.start as isize, column.start as isize],
        size: [lines.input.size as usize, columns.input.size as usize],
    };
    let planes = Planes::new(isa, types, &axes, Some(bounds))?;
    Some(Step {
        axes: Box::new(axes),
        form: Form::Planes(Box::new(planes)),
        bounds: Some(bounds),
    })
}

/// Gives the input the strides of an array of other sizes.
fn restride(geometry: &mut Geometry, sizes: &[i64]) -> Option<()> {
    let strides = geometry::row_major(sizes);
    let stride = |dim: usize| strides.get(dim).map(|d| d.stride);
    for spatial in &mut geometry.spatial {
        spatial.input.stride = stride(spatial.input_dim)?;
    }
    let [batch, features] = geometry.other_input_dims;
    geometry.batch[0].stride = stride(batch)?;
    geometry.in_features[0].stride = stride(features)?;
    Some(())
}

/// Calls `visit` for every choice of a phase in each dimension.
fn each_choice(
    phases: &[Vec<Phase>],
    chosen: &mut SmallVec<[Phase; 3]>,
    visit: &mut dyn FnMut(&[Phase]) -> Option<()>,
) -> Option<()> {
    let Some((first, rest)) = phases.split_first() else {
        return visit(chosen);
    };
    for &phase in first {
        chosen.push(phase);
        each_choice(rest, chosen, visit)?;
        chosen.pop();
    }
    Some(())
}

/// The dimensions of the product of one choice of phases.
fn axes(g: &Geometry, phases: &[Phase], reach: &[(i64, i64)]) -> Option<Axes> {
    let axis = |size: i64, lhs: i64, rhs: i64, out: i64| -> Option<Axis> {
        Some(Axis {
            size: usize::try_from(size).ok()?,
            lhs: isize::try_from(lhs).ok()?,
            rhs: isize::try_from(rhs).ok()?,
            out: isize::try_from(out).ok()?,
        })
    };
    let [input_batch, output_batch] = g.batch;
    let [in_features, kernel_in] = g.in_features;
    let [kernel_out, out_features] = g.out_features;
    let (groups, group_outputs) = g.groups();
    let mut axes = Axes {
        rows: [axis(
            output_batch.size,
            input_batch.stride,
            0,
            output_batch.stride,
        )?]
        .into(),
        columns: [axis(
            group_outputs,
            0,
            kernel_out.stride,
            out_features.stride,
        )?]
        .into(),
        ..Axes::default()
    };
    if g.spatial.len() >= MAX_AXES {
        return None;
    }
    let mut starts = [0i64; 3];
    for (spatial, phase) in g.spatial.iter().zip(phases) {
        let (x, k, y) = (
            spatial.input.stride,
            spatial.kernel.stride,
            spatial.output.stride,
        );
        let (outputs, taps) = (phase.outputs, phase.taps);
        let moved = phase.by_output * x;
        let direction = if spatial.window.reversal { -1 } else { 1 };
        if phase.width > 1 {
            let by_phase = direction * phase.tap_shift * k;
            axes.columns.push(axis(phase.width, 0, by_phase, y)?);
        }
        axes.rows
            .push(axis(outputs.count, moved, 0, outputs.step * y)?);
        let by_tap = direction * taps.step * k;
        axes.depth
            .push(axis(taps.count, phase.by_tap * x, by_tap, 0)?);
        let low = reach.get(spatial.input_dim)?.0;
        starts[0] += (phase.start - low) * x;
        starts[1] += spatial.tap_offset(taps.first);
        starts[2] += outputs.first * y;
    }
    // Neighbours in the result are neighbours in the product.
    axes.columns.sort_by_key(|axis| Reverse(axis.out));
    axes.depth.push(axis(
        kernel_in.size,
        in_features.stride,
        kernel_in.stride,
        0,
    )?);
    if groups > 1 {
        axes.batch.push(axis(
            groups,
            g.input_offset(0, group_outputs),
            group_outputs * kernel_out.stride,
            group_outputs * out_features.stride,
        )?);
    }
    for (to, from) in axes.starts.iter_mut().zip(starts) {
        *to = isize::try_from(from).ok()?;
    }
    Some(axes)
}

/// The product of sizes.
fn count(sizes: impl Iterator<Item = i64>) -> usize {
    sizes
        .map(|size| usize::try_from(size).unwrap_or(0))
        .product()
}

/// What elements are looked for.
#[derive(Clone, Copy)]
enum Special {
    Nan,
    NotFinite,
}

/// Whether any of an array's elements is of a kind.
///
/// # Safety
/// The array has so many elements.
unsafe fn any_special(
    (array, ty, count, special): (*const u8, ElementType, usize, Special),
) -> bool {
    macro_rules! any {
        ($bits:ty, $infinity:expr) => {{
            // SAFETY: the caller promises: the array has so many elements; for the type's size.
            let array = unsafe { std::slice::from_raw_parts(array.cast::<$bits>(), count) };
            let infinity: $bits = $infinity;
            // Without the sign, NaN is above infinity.
            let first = match special {
                Special::Nan => infinity + 1,
                Special::NotFinite => infinity,
            };
            let mut any = false;
            for chunk in array.chunks(4096) {
                for x in chunk {
                    any |= x & (<$bits>::MAX >> 1) >= first;
                }
                if any {
                    break;
                }
            }
            any
        }};
    }
    match ty {
        ElementType::F64 => any!(u64, f64::INFINITY.to_bits()),
        ElementType::F32 => any!(u32, f32::INFINITY.to_bits()),
        ElementType::BF16 => any!(u16, 0x7f80),
        _ => any!(u16, 0x7c00),
    }
}
