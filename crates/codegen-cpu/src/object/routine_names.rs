//! The names of the routines that compute products.

use tegula_ir::ElementType;
use tegula_rt::Kind;
use tegula_target::VectorWidth;

/// The routine of a kind (for products, the one that prepares them), and the one that computes its
/// scratch memory.
pub(super) fn routine(
    width: VectorWidth,
    kind: Kind,
    types: [ElementType; 3],
) -> (&'static str, &'static str) {
    use ElementType::{BF16, F32, F64, S8, S32};
    macro_rules! of_width {
        ($width:literal) => {{
            let product = |types: [ElementType; 3]| match types {
                [F32, F32, F32] => (
                    concat!("tegula_rt_prepare_", $width, "_f32"),
                    concat!("tegula_rt_scratch_", $width, "_f32"),
                ),
                [F64, F64, F64] => (
                    concat!("tegula_rt_prepare_", $width, "_f64"),
                    concat!("tegula_rt_scratch_", $width, "_f64"),
                ),
                [BF16, BF16, BF16 | F32] => (
                    concat!("tegula_rt_prepare_", $width, "_bf16"),
                    concat!("tegula_rt_scratch_", $width, "_bf16"),
                ),
                [S8, S8, S32] => (
                    concat!("tegula_rt_prepare_", $width, "_s8"),
                    concat!("tegula_rt_scratch_", $width, "_s8"),
                ),
                _ => (
                    concat!("tegula_rt_prepare_", $width, "_any"),
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
