//! One element of a convolution by definition: for convolutions that are not computed as products,
//! and for elements where a product with a zero of the padding made a NaN.

use tegula_ir::ElementType;
use tegula_linalg::convolution::Geometry;
use tegula_scalar::apply_convert;

/// Reads and writes elements as f64 or as i64.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    types: [ElementType; 3],
    wide: ElementType,
}

/// The position of an output element, by batch, feature and spatial dimensions.
pub(super) struct Output<'a> {
    pub(super) batch: i64,
    pub(super) feature: i64,
    pub(super) spatial: &'a [i64],
}

impl Output<'_> {
    fn offset(&self, geometry: &Geometry<'_>) -> i64 {
        let spatial = geometry.spatial.iter().zip(self.spatial);
        let spatial: i64 = spatial.map(|(dim, &at)| at * dim.output.stride).sum();
        self.batch * geometry.batch[1].stride
            + self.feature * geometry.out_features[1].stride
            + spatial
    }
}

impl Plain {
    pub(super) fn new(types: [ElementType; 3]) -> Self {
        let wide = if types[2].is_float() {
            ElementType::F64
        } else {
            ElementType::S64
        };
        Self { types, wide }
    }

    /// # Safety
    /// The element can be read.
    unsafe fn load(self, array: usize, base: *const u8, offset: i64) -> u64 {
        let ty = self.types[array];
        let size = ty.storage_bytes();
        let mut bits = [0u8; 16];
        // SAFETY: the caller promises that the element can be read; no element has more than 16
        // bytes.
        unsafe {
            let place = base.offset(offset as isize * size as isize);
            std::ptr::copy_nonoverlapping(place, bits.as_mut_ptr(), size.min(16));
        }
        if ty == ElementType::F32 {
            let [a, b, c, d, ..] = bits;
            return f64::from(f32::from_le_bytes([a, b, c, d])).to_bits();
        }
        apply_convert(ty, self.wide, u128::from_le_bytes(bits)) as u64
    }

    /// Whether an element of the output is NaN.
    ///
    /// # Safety
    /// `out` is the output of this geometry and type.
    pub(super) unsafe fn is_nan(
        self,
        geometry: &Geometry<'_>,
        out: *const u8,
        at: &Output<'_>,
    ) -> bool {
        // SAFETY: the caller promises that `out` is the geometry's output, of this one's type.
        let bits = unsafe { self.load(2, out, at.offset(geometry)) };
        f64::from_bits(bits).is_nan()
    }

    /// Computes one element.
    ///
    /// # Safety
    /// The pointers point to the arrays of the geometry, of these types.
    pub(super) unsafe fn element(
        self,
        geometry: &Geometry<'_>,
        [input, kernel]: [*const u8; 2],
        out: *mut u8,
        at: &Output<'_>,
    ) {
        let [in_features, kernel_features] = geometry.in_features;
        let [batch, channel] = geometry.input_offset(at.batch, at.feature);
        let input_base = batch * geometry.batch[0].stride + channel * in_features.stride;
        let kernel_base = at.feature * geometry.out_features[0].stride;
        let (mut float, mut integer) = (0f64, 0i64);
        let mut add = |x: i64, k: i64| {
            for channel in 0..kernel_features.size {
                // SAFETY: the offsets are of elements of the arrays.
                let (a, b) = unsafe {
                    (
                        self.load(0, input, x + channel * in_features.stride),
                        self.load(1, kernel, k + channel * kernel_features.stride),
                    )
                };
                float += f64::from_bits(a) * f64::from_bits(b);
                integer = integer.wrapping_add((a as i64).wrapping_mul(b as i64));
            }
        };
        taps(geometry, at.spatial, input_base, kernel_base, &mut add);
        let sum = match self.wide {
            ElementType::F64 => float.to_bits(),
            _ => integer as u64,
        };
        let ty = self.types[2];
        let bits = apply_convert(self.wide, ty, u128::from(sum)).to_le_bytes();
        let offset = at.offset(geometry);
        let size = ty.storage_bytes().min(16);
        // SAFETY: the offset is of an element of the output.
        unsafe {
            let place = out.offset(offset as isize * size as isize);
            std::ptr::copy_nonoverlapping(bits.as_ptr(), place, size);
        }
    }
}

/// Calls `add` with the offsets of every pair of input and kernel elements in an output's window,
/// without the offsets of their features.
fn taps(
    geometry: &Geometry<'_>,
    position: &[i64],
    input: i64,
    kernel: i64,
    add: &mut dyn FnMut(i64, i64),
) {
    let level = geometry.spatial.len() - position.len();
    let (Some(spatial), Some((&at, rest))) = (geometry.spatial.get(level), position.split_first())
    else {
        return add(input, kernel);
    };
    for tap in 0..spatial.kernel.size {
        if let Some(element) = spatial.meet(at, tap) {
            let input = input + element * spatial.input.stride;
            taps(geometry, rest, input, kernel + spatial.tap_offset(tap), add);
        }
    }
}
