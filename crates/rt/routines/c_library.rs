//! Safe wrappers of the C library's scalar math functions, under the names of the crate `libm`.

macro_rules! functions {
    ($($name:ident ($($x:ident),*);)*) => {
        unsafe extern "C" {
            $(pub safe fn $name($($x: f64),*) -> f64;)*
        }
    };
}

functions! {
    acos(x); asin(x); atan2(y, x); cos(x); cosh(x); exp(x); expm1(x); hypot(x, y);
    log(x); log1p(x); sin(x); sinh(x); sqrt(x);
}
