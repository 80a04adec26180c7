//! Convolutions as [products](tegula_linalg::convolution), prepared and run.
//!
//! - If windows reach outside of the input, the input is first copied with its border.
//! - Convolutions of many groups with one feature each have loops of their own
//!   ([`tegula_linalg::depthwise`] with the features last, [`tegula_linalg::planes`] with them
//!   first).
//! - Convolutions with too many phases or too large a border are computed by definition.

mod geometry;
mod plain;

use geometry::Sizes;
use plain::{Output, Plain};
use smallvec::{SmallVec, smallvec};
use std::fmt;
use tegula_ir::helpers::ConvolutionGroups;
use tegula_ir::{ArrayShape, ElementType, Op};
use tegula_linalg::convolution::{Border, Convolution as Products};
use tegula_linalg::depthwise::Direct;
use tegula_linalg::gemm::{Axes, PackedLayout, Product};
use tegula_linalg::planes::{ImageBounds, Planes};
use tegula_linalg::thread_pool::ThreadPool;
use tegula_rt::Kind;
use tegula_target::CpuFeatures;

/// A convolution ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Convolution {
    sizes: Sizes,
    types: [ElementType; 3],
    way: Way,
    /// Whether a window reaches outside of the input.
    bordered: bool,
}

/// The method of computation.
#[derive(Clone, Debug)]
enum Way {
    /// A sequence of matrix products. If necessary, they read a copy of the input with a border.
    Products {
        padding: Option<Box<(Border, usize)>>,
        products: Vec<Step>,
    },
    /// Element by element, as the operation is defined.
    Plain,
}

#[derive(Clone, Debug)]
struct Step {
    axes: Box<Axes>,
    form: Form,
    /// The bounds of the images, if windows reach outside of them.
    bounds: Option<ImageBounds>,
}

/// The implementation of a product.
#[derive(Clone, Debug)]
enum Form {
    Product(Box<Product>),
    Direct(Box<Direct>),
    Planes(Box<Planes>),
}

/// The words that describe a copy with a border (the bytes of an element, the number of dimensions,
/// and each as a [`BorderedDim`](tegula_linalg::border::BorderedDim)), and the bytes of the copy.
pub(crate) type BorderWords = (Vec<i64>, usize);

fn words(border: &Border) -> Vec<i64> {
    let (element, dims) = border.parts();
    let each = dims.iter().flat_map(|d| {
        let own = [d.size, d.front, d.skipped, d.kept, d.behind];
        own.into_iter().chain([d.from_bytes, d.to_bytes])
    });
    let head = [element, dims.len()].map(|n| n as i64);
    head.into_iter().chain(each).collect()
}

/// One product of a convolution, for callers outside of this module.
pub(crate) struct Part<'a> {
    pub(crate) kind: Kind,
    pub(crate) axes: &'a Axes,
    /// The bounds of the images, if windows reach outside of them.
    pub(crate) bounds: Option<ImageBounds>,
    /// The offset of its packed kernel, if the kernel is packed once.
    pub(crate) kept: Option<usize>,
    /// The bytes of scratch memory, including tables.
    pub(crate) scratch: usize,
}

impl Convolution {
    /// The products and sums of a run, including those with padding.
    pub(crate) fn operations(&self) -> f64 {
        let g = &self.sizes.geometry();
        // The number of output elements times the kernel elements that each is a sum over.
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
        let g = &self.sizes.geometry();
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
        match g.groups {
            1 => Ok(()),
            groups => write!(f, " in {groups} groups"),
        }
    }
}

impl Convolution {
    /// Prepares a convolution, whose kernel may be `fixed`: the same in every run. `None` if the
    /// operation is not a convolution, or the types have no matrix product.
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
        let sizes = Sizes::new(shapes, window, dims, groups)?;
        let found = Products::new(sizes.geometry());
        let bordered = found.as_ref().is_none_or(Products::is_bordered);
        let how = (isa, fixed.then_some(1));
        let way = found.and_then(|found| products(how, &found, types));
        Some(Self {
            way: way.unwrap_or(Way::Plain),
            sizes,
            types,
            bordered,
        })
    }

    /// Whether a window reaches outside of the input.
    pub(crate) fn is_bordered(&self) -> bool {
        self.bordered
    }

    /// The number of elements of the kernel and of the output.
    pub(crate) fn elements(&self) -> [usize; 2] {
        let g = &self.sizes.geometry();
        let taps = g.spatial.iter().map(|s| s.kernel.size);
        let features = [g.in_features[1].size, g.out_features[0].size];
        [count(taps.chain(features)), self.output_elements()]
    }

    /// Its products, with the words of the border if they read a bordered copy. `None` if elements
    /// are computed by definition.
    pub(crate) fn parts(&self) -> Option<(Option<BorderWords>, Vec<Part<'_>>)> {
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
            .map(|padding| (words(&padding.0), padding.1));
        Some((padding, parts.collect()))
    }

    /// The bytes of scratch memory for a run with this many threads.
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

    /// Its products, each with the offset of its part in the packed form of the kernel, which is
    /// operand 1 of all products.
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

    /// The layouts in which the products pack the kernel.
    pub(crate) fn kept_layouts(&self) -> Vec<PackedLayout> {
        let products = self.kept_parts();
        products.filter_map(|(p, _)| p.kept_layout()).collect()
    }

    /// Packs the kernel once.
    ///
    /// # Safety
    /// `kernel` is the one that is passed to [`Self::run`]; `kept` has [`Self::kept_bytes`],
    /// aligned to 64.
    pub(crate) unsafe fn keep(&self, kernel: *const u8, kept: *mut u8) {
        for (product, before) in self.kept_parts() {
            // SAFETY: the caller promises that the kernel is the one that [`Self::run`] gets;
            // `kept` has [`Self::kept_bytes`], aligned to 64; each product has its own part.
            unsafe { product.keep(kernel, kept.add(before)) };
        }
    }

    /// Computes the convolution.
    ///
    /// # Safety
    /// The pointers point to dense arrays of the convolution's shapes, and `out` overlaps neither
    /// operand; `kept` points to the result of [`Self::keep`], if the kernel is packed once;
    /// `scratch` has [`Self::scratch_bytes`], aligned to 64.
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
                // SAFETY: the caller promises that the pointers point to dense arrays of the shapes
                // this was made for, and that `out` overlaps neither operand; `kept` points to the
                // result of [`Self::keep`], if the kernel is packed once; `scratch` has
                // [`Self::scratch_bytes`], aligned to 64.
                return unsafe { self.by_definition([input, kernel], out, false) };
            }
        };
        // SAFETY: the caller promises that the pointers point to dense arrays of the shapes this
        // was made for, and that `out` overlaps neither operand; `kept` points to the result of
        // [`Self::keep`], if the kernel is packed once; `scratch` has [`Self::scratch_bytes`],
        // aligned to 64; the copy and the products have their own parts of the scratch memory.
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

    /// Recomputes elements that are NaN, if the kernel has infinities or NaN: padding must have no
    /// effect, but zero times infinity is NaN.
    ///
    /// # Safety
    /// The same as for [`Self::run`].
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
        // The smaller array is examined first, which is usually sufficient.
        let [first, second] = match kernel_elements < output_elements {
            true => [kernel, output],
            false => [output, kernel],
        };
        // SAFETY: the arrays have this many elements.
        unsafe {
            if any_special(first) && any_special(second) {
                self.by_definition(operands, out, true);
            }
        }
    }

    fn output_elements(&self) -> usize {
        let g = &self.sizes.geometry();
        let spatial = g.spatial.iter().map(|s| s.output.size);
        count(spatial.chain([g.batch[1].size, g.out_features[1].size]))
    }

    /// Computes elements by definition: all, or only those that are NaN.
    ///
    /// # Safety
    /// The same as for [`Self::run`].
    unsafe fn by_definition(&self, operands: [*const u8; 2], out: *mut u8, only_nan: bool) {
        let g = &self.sizes.geometry();
        let features = g.out_features[1].size;
        let plain = Plain::new(self.types);
        let mut position: SmallVec<[i64; 3]> = smallvec![0; g.spatial.len()];
        for index in 0..self.output_elements() {
            let mut rest = index as i64;
            for (position, spatial) in position.iter_mut().zip(g.spatial).rev() {
                *position = rest % spatial.output.size;
                rest /= spatial.output.size;
            }
            let at = Output {
                batch: rest / features,
                feature: rest % features,
                spatial: &position,
            };
            // SAFETY: the caller promises dense arrays of the convolution's shapes, with `out`
            // overlapping neither operand; the position is one of the output.
            unsafe {
                if !only_nan || plain.is_nan(g, out, &at) {
                    plain.element(g, operands, out, &at);
                }
            }
        }
    }
}

/// Splits a convolution into matrix products, or loops that replace them. `fixed` is the number of
/// the operand that is the same in every run, if there is one. `None` if the copy of the input with
/// its border would be too large, if sizes overflow, or if no product has these types.
fn products(
    (isa, fixed): (CpuFeatures, Option<usize>),
    found: &Products<'_>,
    types: [ElementType; 3],
) -> Option<Way> {
    let mut padding = None;
    if found.is_bordered() {
        if let Some(step) = planes_without_border(isa, found, types) {
            let products = vec![step];
            return Some(Way::Products { padding, products });
        }
        let border = found.border(types[0].storage_bytes())?;
        padding = Some(Box::new((border, border.bytes()?)));
    }
    let mut products = Vec::new();
    let border = padding.as_ref().map(|padding| &padding.0);
    found.each_product(border, &mut |axes| {
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

/// A loop for windows that reach outside of images. It skips the elements outside, so the input
/// need not be copied with a border. `None` if no [`Planes`] loop supports the convolution.
fn planes_without_border(
    isa: CpuFeatures,
    found: &Products<'_>,
    types: [ElementType; 3],
) -> Option<Step> {
    let (axes, bounds) = found.without_border()?;
    let planes = Planes::new(isa, types, &axes, Some(bounds))?;
    Some(Step {
        axes: Box::new(axes),
        form: Form::Planes(Box::new(planes)),
        bounds: Some(bounds),
    })
}

/// The product of sizes.
fn count(sizes: impl Iterator<Item = i64>) -> usize {
    sizes
        .map(|size| usize::try_from(size).unwrap_or(0))
        .product()
}

/// The kind of elements to look for.
#[derive(Clone, Copy)]
enum Special {
    Nan,
    NotFinite,
}

/// Whether an array has an element of this kind.
///
/// # Safety
/// The array has `count` elements.
unsafe fn any_special(
    (array, ty, count, special): (*const u8, ElementType, usize, Special),
) -> bool {
    macro_rules! any {
        ($bits:ty, $infinity:expr) => {{
            // SAFETY: the caller promises that the array has `count` elements, each of the size of
            // this type.
            let array = unsafe { std::slice::from_raw_parts(array.cast::<$bits>(), count) };
            let infinity: $bits = $infinity;
            // The bits of a NaN without the sign are above those of infinity.
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
