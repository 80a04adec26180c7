//! Convolutions whose sizes are known only when the program runs: the call also does the
//! preparation that a run would do before.
//!
//! `convolution` chooses the products, as in a run. The caller passes the functions that compute
//! them, so that a program contains only the code for its own vectors and types.

use crate::convolution::{Border, Convolution, Dim, Geometry, MAX_DIMS, Spatial, Window, row_major};
use crate::depthwise::MAX_TAPS;
use crate::entries::HEAD;
use crate::gemm::{Axes, MAX_AXES, Product};
use crate::list::List;
use crate::planes::ImageBounds;
use crate::prepared::PREPARED_BYTES;
use crate::thread_pool::ThreadPool;
use crate::ElementType;

/// The number of words between the head and the spatial dimensions: the number of dimensions of the
/// arrays; the groups, and whether they divide the batch; the batch and feature dimensions of the
/// input, the feature dimensions of the kernel, the batch and feature dimensions of the output.
const COUNTS: usize = 9;
/// The number of words of a spatial dimension: its number in the input, the kernel and the output,
/// and its window.
const OF_SPATIAL: usize = 8;
/// A number of elements that no array can have.
const TOO_MANY: i64 = 1 << 48;

/// The functions that compute the products.
#[repr(C)]
pub struct Functions {
    /// Prepares a product in memory; returns the bytes used.
    prepare: unsafe extern "C" fn(*const i64, *mut u8) -> i64,
    /// Returns the bytes of memory that a product needs.
    scratch: unsafe extern "C" fn(*const i64) -> i64,
    /// Computes products of adjacent groups.
    depthwise: Groups,
    /// Computes products of groups with adjacent rows.
    planes: Groups,
}

/// Computes a product of groups; returns 0 if the function does not support it.
type Groups = unsafe extern "C" fn(*const i64, *const u8, *const u8, *const u8, *mut u8, *mut u8) -> i64;

/// A call's description of a convolution.
struct Description {
    head: [i64; HEAD],
    input_dims: List<i64, MAX_DIMS>,
    spatial: List<Spatial, MAX_AXES>,
    others: Geometry<'static>,
}

impl Description {
    /// Reads a description; `None` if an array would have more elements than is possible.
    ///
    /// # Safety
    /// The words are a description.
    unsafe fn at(words: *const i64) -> Option<Self> {
        // SAFETY: the caller promises the words: a head, counts, spatial dimensions, and three
        // arrays' sizes.
        let (head, counts, of_spatial, sizes) = unsafe {
            let counts = &*words.add(HEAD).cast::<[i64; COUNTS]>();
            let count = counts[0] as usize;
            let of_spatial = words.add(HEAD + COUNTS).cast::<[i64; OF_SPATIAL]>();
            let of_spatial = core::slice::from_raw_parts(of_spatial, count - 2);
            let sizes = words.add(HEAD + COUNTS + of_spatial.len() * OF_SPATIAL);
            (*words.cast::<[i64; HEAD]>(), counts, of_spatial, core::slice::from_raw_parts(sizes, 3 * count))
        };
        let &[count, groups, are_of_batch, input_batch, input_feature, kernel_in, kernel_out, output_batch, output_feature] =
            counts;
        let mut dims = [[Dim::default(); MAX_DIMS]; 3];
        for (own, dims) in sizes.chunks_exact(count as usize).zip(&mut dims) {
            let elements = own.iter().try_fold(1i64, |n, &size| n.checked_mul(size.max(1)));
            elements.filter(|&elements| elements < TOO_MANY)?;
            row_major(own, &mut dims[..own.len()]);
        }
        let [x, k, y] = dims;
        let mut input_dims = List::new();
        sizes[..count as usize].iter().for_each(|&size| input_dims.push(size));
        let mut spatial = List::new();
        for &[input, kernel, output, stride, padding_low, base_dilation, window_dilation, is_reversed] in of_spatial {
            spatial.push(Spatial {
                input: x[input as usize],
                kernel: k[kernel as usize],
                output: y[output as usize],
                window: Window {
                    stride,
                    padding_low,
                    base_dilation,
                    window_dilation,
                    is_reversed: is_reversed != 0,
                },
                input_dim: input as usize,
            });
        }
        let out_features = k[kernel_out as usize];
        let others = Geometry {
            input_dims: &[],
            other_input_dims: [input_batch as usize, input_feature as usize],
            batch: [x[input_batch as usize], y[output_batch as usize]],
            in_features: [x[input_feature as usize], k[kernel_in as usize]],
            out_features: [out_features, y[output_feature as usize]],
            spatial: &[],
            groups,
            are_of_batch: are_of_batch != 0,
            group_outputs: out_features.size / groups.max(1),
        };
        Some(Self { head, input_dims, spatial, others })
    }

    fn geometry(&self) -> Geometry<'_> {
        Geometry {
            input_dims: &self.input_dims,
            spatial: &self.spatial,
            ..self.others
        }
    }

    fn element_type(&self, number: usize) -> ElementType {
        let known = ElementType::ALL.get(self.head[11 + number] as usize);
        known.copied().unwrap_or(ElementType::F32)
    }

    /// The words of one product's description.
    fn product(&self, axes: &Axes, bounds: Option<ImageBounds>) -> Words {
        let mut words = List::new();
        self.head.iter().for_each(|&word| words.push(word));
        let lists = [&axes.batch, &axes.rows, &axes.columns, &axes.depth];
        for (count, list) in lists.into_iter().enumerate() {
            words[count] = list.len() as i64;
            for axis in list.iter() {
                let own = [axis.size as i64, axis.lhs as i64, axis.rhs as i64, axis.out as i64];
                own.into_iter().for_each(|word| words.push(word));
            }
        }
        for (number, &start) in axes.starts.iter().enumerate() {
            words[4 + number] = start as i64;
        }
        let bounds = bounds.map_or([0; 4], |bounds| {
            let [first, size] = [bounds.first, bounds.size.map(|n| n as isize)];
            [first[0], first[1], size[0], size[1]]
        });
        bounds.into_iter().for_each(|word| words.push(word as i64));
        words
    }
}

/// The words of a product's description: its head, its axes, and the images' bounds.
type Words = List<i64, { HEAD + 4 * 4 * MAX_AXES + 4 }>;

/// Computes a convolution. Returns 0 on success, 1 if a window reaches outside of the input, or 2
/// if the convolution cannot be computed as products; then nothing is computed.
///
/// # Safety
/// The words describe the arrays at these addresses, and the functions are for their types. The
/// scratch memory has the bytes that [`tegula_rt_scratch_convolution`] returns, aligned to 64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_rt_convolution(
    words: *const i64,
    functions: *const Functions,
    input: *const u8,
    kernel: *const u8,
    out: *mut u8,
    scratch: *mut u8,
) -> i64 {
    // SAFETY: the caller promises the description, the functions, the arrays and the scratch
    // memory.
    let is_bordered = unsafe {
        let description = Description::at(words);
        description.and_then(|description| compute(&description, &*functions, [input, kernel], out, scratch))
    };
    is_bordered.map_or(2, i64::from)
}

/// Computes the products; returns whether a window reaches outside of the input.
///
/// # Safety
/// As [`tegula_rt_convolution`].
unsafe fn compute(
    description: &Description,
    functions: &Functions,
    [input, kernel]: [*const u8; 2],
    out: *mut u8,
    mut scratch: *mut u8,
) -> Option<bool> {
    let found = Convolution::new(description.geometry())?;
    let mut base = input;
    let mut border: Option<Border> = None;
    let nothing = core::ptr::null();
    if found.is_bordered() {
        if let Some((axes, bounds)) = found.without_border() {
            let words = description.product(&axes, Some(bounds));
            // SAFETY: the caller promises the arrays; the tables have room in the scratch memory.
            let is_done = unsafe { (functions.planes)(words.as_ptr(), input, kernel, nothing, out, scratch) };
            if is_done != 0 {
                return Some(true);
            }
        }
        let made = found.border(description.element_type(0).storage_bytes())?;
        let bytes = made.bytes()?;
        // SAFETY: the scratch memory begins with room for the copy.
        unsafe { made.copy(input, scratch) };
        base = scratch;
        scratch = scratch.wrapping_add(bytes);
        border = Some(made);
    }
    found.each_product(border.as_ref(), &mut |axes| {
        let words = description.product(&axes, None);
        let words = words.as_ptr();
        // SAFETY: the caller promises the arrays; the scratch memory has room for what each product
        // needs, and the functions write prepared products to its start.
        unsafe {
            if (functions.depthwise)(words, base, kernel, nothing, out, scratch) != 0
                || (functions.planes)(words, base, kernel, nothing, out, scratch) != 0
            {
                return Some(());
            }
            let taken = (functions.prepare)(words, scratch);
            let product = (*scratch.cast::<Option<Product>>()).as_ref()?;
            let kept = scratch.wrapping_add(taken as usize);
            let packed = product.kept_bytes().map_or(0, |(_, bytes)| bytes.next_multiple_of(64));
            let rest = kept.wrapping_add(packed);
            if packed != 0 {
                product.keep_in(kernel, kept, rest);
            }
            product.run([base, kernel], kept, out, rest, &ThreadPool);
        }
        Some(())
    })?;
    Some(found.is_bordered())
}

/// Returns the bytes of scratch memory that a convolution needs.
///
/// # Safety
/// The words are a description, the functions those of its types.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_rt_scratch_convolution(words: *const i64, functions: *const Functions) -> i64 {
    // SAFETY: the caller promises the description and the functions.
    let bytes = unsafe { Description::at(words).and_then(|description| scratch_bytes(&description, &*functions)) };
    // The function for planes is also tried on a convolution that cannot be computed as products.
    bytes.unwrap_or(0).max(TABLES as i64)
}

/// The maximum size, in bytes, of the tables of a product of groups.
const TABLES: usize = MAX_TAPS * size_of::<[isize; 2]>();

/// # Safety
/// As [`tegula_rt_scratch_convolution`].
unsafe fn scratch_bytes(description: &Description, functions: &Functions) -> Option<i64> {
    let found = Convolution::new(description.geometry())?;
    let border = match found.is_bordered() {
        true => Some(found.border(description.element_type(0).storage_bytes())?),
        false => None,
    };
    let copy = border.as_ref().map_or(Some(0), Border::bytes)?;
    let mut most = TABLES as i64;
    found.each_product(border.as_ref(), &mut |axes| {
        let words = description.product(&axes, None);
        // SAFETY: the words describe a product.
        most = most.max(unsafe { (functions.scratch)(words.as_ptr()) });
        Some(())
    })?;
    i64::try_from(copy).ok()?.checked_add(most)
}

const _: () = assert!(size_of::<Option<Product>>() <= PREPARED_BYTES);
