//! The functions that programs call.
//!
//! Each is for given vectors and types, so that a program that copies it gets no other code: the
//! functions that decide how a product is computed are inlined here.

use crate::border::{self, BorderedDim};
use crate::depthwise::Direct;
use crate::gemm::{Axes, Axis, Known, Product, Types};
use crate::planes::{ImageBounds, Planes};
use crate::prepared::PREPARED_BYTES;
use crate::tables::Tables;
use crate::thread_pool::ThreadPool;
use crate::{CpuFeatures, ElementType, VectorWidth};

/// The number of words before the axes; `tegula_rt::call` lists them.
pub const HEAD: usize = 14;

/// A call's description.
#[derive(Clone, Copy)]
struct Call<'a> {
    head: &'a [i64; HEAD],
    axes: *const [i64; 4],
}

impl Call<'_> {
    /// # Safety
    /// The words are a description.
    unsafe fn at(words: *const i64) -> Self {
        // SAFETY: the caller promises that the words are a description, which has at least a head.
        unsafe {
            Self {
                head: &*words.cast(),
                axes: words.add(HEAD).cast(),
            }
        }
    }

    fn axes(&self) -> Axes {
        let mut at = self.axes;
        let mut axes = Axes {
            starts: [self.head[4], self.head[5], self.head[6]].map(|start| start as isize),
            ..Axes::default()
        };
        let lists = [&mut axes.batch, &mut axes.rows, &mut axes.columns, &mut axes.depth];
        for (list, &count) in lists.into_iter().zip(self.head) {
            for _ in 0..count {
                // SAFETY: the description has this many axes.
                let [size, lhs, rhs, out] = unsafe { at.read() };
                at = at.wrapping_add(1);
                list.push(Axis {
                    size: size as usize,
                    lhs: lhs as isize,
                    rhs: rhs as isize,
                    out: out as isize,
                });
            }
        }
        axes
    }

    /// The images' bounds, which follow the axes of planes.
    fn bounds(&self) -> Option<ImageBounds> {
        let axes: i64 = self.head[..4].iter().sum();
        let words = self.axes.wrapping_add(axes as usize);
        // SAFETY: the description has these words.
        let [line, column, lines, columns] = unsafe { words.read() };
        (lines > 0).then_some(ImageBounds {
            first: [line as isize, column as isize],
            size: [lines as usize, columns as usize],
        })
    }

    fn fixed(&self) -> Option<usize> {
        usize::try_from(self.head[8]).ok().filter(|&operand| operand < 2)
    }

    #[inline(always)]
    fn features(&self, width: VectorWidth) -> CpuFeatures {
        CpuFeatures {
            width,
            bf16: self.head[10] & 1 != 0,
            vnni: self.head[10] & 2 != 0,
            dot_product: self.head[10] & 4 != 0,
            int8_matrices: self.head[10] & 8 != 0,
            // Matrix registers need permission from the operating system, so they are not used.
            amx_bf16: false,
            amx_int8: false,
            first_level_ways: u8::try_from(self.head[9]).ok().filter(|&ways| ways != 0),
        }
    }

    fn types(&self) -> Types {
        let named = |index: i64| {
            let known = ElementType::ALL.get(index as usize);
            known.copied().unwrap_or(ElementType::F32)
        };
        [self.head[11], self.head[12], self.head[13]].map(named)
    }
}

const _: () = assert!(size_of::<Option<Product>>() <= PREPARED_BYTES);

/// Prepares a product.
#[inline(always)]
fn product<K: Known>(tables: &mut Tables, call: &Call<'_>) -> Option<Product> {
    let features = K::isa(call.features(VectorWidth::Portable));
    let types = K::types(call.types());
    Product::new_in::<K>(tables, features, types, call.axes(), call.fixed())
}

/// The type of a product's operands, if it is fixed.
macro_rules! operands {
    (Any) => {
        None
    };
    ($ty:ident) => {
        Some(ElementType::$ty)
    };
}

macro_rules! products {
    ($($prepare:ident $scratch:ident $known:ident $width:ident $ty:ident [$($result:ident),*];)*) => {$(
        struct $known;

        impl Known for $known {
            const WIDTH: Option<VectorWidth> = Some(VectorWidth::$width);
            const OPERANDS: Option<ElementType> = operands!($ty);
            const RESULTS: &'static [ElementType] = &[$(ElementType::$result),*];
        }

        /// Prepares a product in memory; returns the bytes used.
        ///
        /// # Safety
        /// `call` points to a description. The memory has [`PREPARED_BYTES`] and the bytes of the
        /// product's tables, aligned to 64.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $prepare(call: *const i64, memory: *mut u8) -> i64 {
            // SAFETY: the caller promises the description and the memory.
            unsafe {
                let call = Call::at(call);
                let mut tables = Tables::at(memory.add(PREPARED_BYTES));
                let ready = memory.cast::<Option<Product>>();
                ready.write(product::<$known>(&mut tables, &call));
                // Modified in place: copying a product takes longer than preparing it.
                if call.head[7] != 0 && let Some(product) = &mut *ready {
                    // This succeeds: the description's author has not marked an operand as
                    // prepacked if the product could then not add.
                    product.becomes_adding();
                }
                (PREPARED_BYTES + tables.bytes.next_multiple_of(64)) as i64
            }
        }

        /// Returns the bytes of memory that a product needs: prepared and while it is computed,
        /// including the packed form of an operand that is to be prepacked.
        ///
        /// # Safety
        /// `call` points to a description.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $scratch(call: *const i64) -> i64 {
            // SAFETY: the caller promises the description.
            let call = unsafe { Call::at(call) };
            let mut tables = Tables::counting();
            let product = product::<$known>(&mut tables, &call);
            let scratch = product.map_or(0, |product| {
                let scratch = product.scratch_bytes(1);
                match product.kept_bytes() {
                    Some((_, kept)) => kept.next_multiple_of(64) + scratch.max(product.packing_bytes()),
                    None => scratch,
                }
            });
            (PREPARED_BYTES + tables.bytes.next_multiple_of(64) + scratch) as i64
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
products! {
    tegula_rt_prepare_portable_f32 tegula_rt_scratch_portable_f32 PortableF32 Portable F32 [F32];
    tegula_rt_prepare_portable_f64 tegula_rt_scratch_portable_f64 PortableF64 Portable F64 [F64];
    tegula_rt_prepare_portable_bf16 tegula_rt_scratch_portable_bf16 PortableBf16 Portable BF16 [F32, BF16];
    tegula_rt_prepare_portable_s8 tegula_rt_scratch_portable_s8 PortableS8 Portable S8 [S32];
    tegula_rt_prepare_portable_any tegula_rt_scratch_portable_any PortableAny Portable Any [];
    tegula_rt_prepare_avx2_f32 tegula_rt_scratch_avx2_f32 Avx2F32 Avx2 F32 [F32];
    tegula_rt_prepare_avx2_f64 tegula_rt_scratch_avx2_f64 Avx2F64 Avx2 F64 [F64];
    tegula_rt_prepare_avx2_bf16 tegula_rt_scratch_avx2_bf16 Avx2Bf16 Avx2 BF16 [F32, BF16];
    tegula_rt_prepare_avx2_s8 tegula_rt_scratch_avx2_s8 Avx2S8 Avx2 S8 [S32];
    tegula_rt_prepare_avx2_any tegula_rt_scratch_avx2_any Avx2Any Avx2 Any [];
    tegula_rt_prepare_avx512_f32 tegula_rt_scratch_avx512_f32 Avx512F32 Avx512 F32 [F32];
    tegula_rt_prepare_avx512_f64 tegula_rt_scratch_avx512_f64 Avx512F64 Avx512 F64 [F64];
    tegula_rt_prepare_avx512_bf16 tegula_rt_scratch_avx512_bf16 Avx512Bf16 Avx512 BF16 [F32, BF16];
    tegula_rt_prepare_avx512_s8 tegula_rt_scratch_avx512_s8 Avx512S8 Avx512 S8 [S32];
    tegula_rt_prepare_avx512_any tegula_rt_scratch_avx512_any Avx512Any Avx512 Any [];
}

#[cfg(target_arch = "aarch64")]
products! {
    tegula_rt_prepare_neon_f32 tegula_rt_scratch_neon_f32 NeonF32 Neon F32 [F32];
    tegula_rt_prepare_neon_f64 tegula_rt_scratch_neon_f64 NeonF64 Neon F64 [F64];
    tegula_rt_prepare_neon_bf16 tegula_rt_scratch_neon_bf16 NeonBf16 Neon BF16 [F32, BF16];
    tegula_rt_prepare_neon_s8 tegula_rt_scratch_neon_s8 NeonS8 Neon S8 [S32];
    tegula_rt_prepare_neon_any tegula_rt_scratch_neon_any NeonAny Neon Any [];
}

/// Computes a product.
///
/// # Safety
/// The product was prepared in this memory, from a description of the arrays at these addresses.
/// The scratch memory has the bytes that the product needs, aligned to 64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_rt_product(
    prepared: *const u8,
    lhs: *const u8,
    rhs: *const u8,
    kept: *const u8,
    out: *mut u8,
    scratch: *mut u8,
) {
    // SAFETY: the caller promises the product, its arrays and the scratch memory.
    unsafe {
        if let Some(product) = &*prepared.cast::<Option<Product>>() {
            product.run([lhs, rhs], kept, out, scratch, &ThreadPool);
        }
    }
}

macro_rules! groups {
    ($($name:ident $kind:ident $width:ident $([$bounds:ident])?;)*) => {$(
        /// Returns 1, or 0 if the product is not of this kind; then nothing is computed.
        ///
        /// # Safety
        /// As for a product.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            call: *const i64,
            lhs: *const u8,
            rhs: *const u8,
            _kept: *const u8,
            out: *mut u8,
            scratch: *mut u8,
        ) -> i64 {
            // SAFETY: the caller promises the description, the arrays and the scratch memory.
            unsafe {
                let call = Call::at(call);
                let mut tables = Tables::at(scratch);
                let features = call.features(VectorWidth::$width);
                let (types, axes) = (call.types(), call.axes());
                let groups = $kind::new_in(&mut tables, features, types, &axes $(, call.$bounds())?);
                match groups {
                    Some(groups) => {
                        groups.run(lhs, rhs, out, &ThreadPool);
                        1
                    }
                    None => 0,
                }
            }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
groups! {
    tegula_rt_depthwise_portable Direct Portable;
    tegula_rt_depthwise_avx2 Direct Avx2;
    tegula_rt_depthwise_avx512 Direct Avx512;
    tegula_rt_planes_portable Planes Portable [bounds];
    tegula_rt_planes_avx2 Planes Avx2 [bounds];
    tegula_rt_planes_avx512 Planes Avx512 [bounds];
}

#[cfg(target_arch = "aarch64")]
groups! {
    tegula_rt_depthwise_neon Direct Neon;
    tegula_rt_planes_neon Planes Neon [bounds];
}

/// A placeholder for functions that a program never calls, in functions that it does call.
#[unsafe(no_mangle)]
pub extern "C" fn tegula_rt_absent() -> ! {
    crate::stop()
}

/// Copies an array with a border of zeros added, or with a border cut off.
///
/// # Safety
/// The words describe a copy in the format in which `crates/codegen-cpu` writes the padding of a
/// convolution; the array and the copy have the sizes in the words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_rt_pad(words: *const i64, from: *const u8, to: *mut u8) {
    // SAFETY: the caller promises the words and the arrays.
    unsafe {
        let (element, count) = (*words as usize, *words.add(1) as usize);
        let dims = core::slice::from_raw_parts(words.add(2).cast::<BorderedDim>(), count);
        border::copy(dims, element, from, to);
    }
}

macro_rules! specials {
    ($($name:ident $bits:ty;)*) => {$(
        /// Whether any of `count` elements, without its sign bit, is at least `first` as an
        /// integer: one that is infinite or NaN.
        ///
        /// # Safety
        /// The elements are there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(array: *const u8, count: i64, first: i64) -> i64 {
            // SAFETY: the caller promises the elements.
            let array = unsafe { core::slice::from_raw_parts(array.cast::<$bits>(), count as usize) };
            let any = array.chunks(4096).any(|chunk| {
                let special = |x: &$bits| x & (<$bits>::MAX >> 1) >= first as $bits;
                chunk.iter().fold(false, |any, x| any | special(x))
            });
            i64::from(any)
        }
    )*};
}

specials! {
    tegula_rt_special_16 u16;
    tegula_rt_special_32 u32;
    tegula_rt_special_64 u64;
}
