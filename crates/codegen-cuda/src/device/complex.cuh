struct __align__(8) tegula_c64 { float re, im; };

struct __align__(16) tegula_c128 { double re, im; };

__device__ tegula_c64 tegula_complex(float re, float im) { tegula_c64 z; z.re = re; z.im = im; return z; }

__device__ tegula_c128 tegula_complex(double re, double im) { tegula_c128 z; z.re = re; z.im = im; return z; }

__device__ tegula_c128 tegula_widen(tegula_c64 z) { return tegula_complex((double)z.re, (double)z.im); }

__device__ tegula_c128 tegula_widen(tegula_c128 z) { return z; }

__device__ void tegula_narrow(tegula_c128 z, tegula_c64 &out) { out = tegula_complex((float)z.re, (float)z.im); }

__device__ void tegula_narrow(tegula_c128 z, tegula_c128 &out) { out = z; }

template <typename C> __device__ C tegula_as(tegula_c128 z) { C out; tegula_narrow(z, out); return out; }

template <typename C> __device__ C tegula_add(C a, C b) { return tegula_complex(a.re + b.re, a.im + b.im); }

template <typename C> __device__ C tegula_subtract(C a, C b) { return tegula_complex(a.re - b.re, a.im - b.im); }

template <typename C> __device__ C tegula_multiply(C a, C b) {
    return tegula_complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}

template <typename C> __device__ C tegula_negate(C a) { return tegula_complex(-a.re, -a.im); }

template <typename C> __device__ bool tegula_equal(C a, C b) { return a.re == b.re && a.im == b.im; }

// 1 of the sign of an infinite part, 0 of any other.
__device__ double tegula_direction(double x) { return isinf(x) ? copysign(1.0, x) : 0.0; }

// A quotient q = a / b where both parts are NaN: something infinite by a finite number is infinite, and a
// finite number by something infinite zero.
__device__ tegula_c128 tegula_corrected(tegula_c128 q, tegula_c128 a, tegula_c128 b) {
    if (q.re == q.re || q.im == q.im) return q;
    bool large = (isinf(a.re) || isinf(a.im)) && isfinite(b.re) && isfinite(b.im);
    bool small = (isinf(b.re) || isinf(b.im)) && isfinite(a.re) && isfinite(a.im);
    if (!large && !small) return q;
    double size = large ? __longlong_as_double(0x7ff0000000000000ll) : 0.0;
    if (large) a = tegula_complex(tegula_direction(a.re), tegula_direction(a.im));
    if (small) b = tegula_complex(tegula_direction(b.re), tegula_direction(b.im));
    return tegula_complex(size * (a.re * b.re + a.im * b.im), size * (a.im * b.re - a.re * b.im));
}

// Division of numbers with parts of 32 bits, whose products are exact in 64.
__device__ tegula_c128 tegula_quotient_of_singles(tegula_c128 a, tegula_c128 b) {
    double square = b.re * b.re + b.im * b.im;
    if (square == 0.0) return tegula_corrected(tegula_complex(a.re / b.re, a.im / b.re), a, b);
    double inverse = 1.0 / square;
    double re = a.re * b.re + a.im * b.im, im = a.im * b.re - a.re * b.im;
    return tegula_corrected(tegula_complex(re * inverse, im * inverse), a, b);
}

// Smith's division, scaled by the larger part of the divisor.
__device__ tegula_c128 tegula_quotient(tegula_c128 a, tegula_c128 b) {
    if (b.re == 0.0 && b.im == 0.0) return tegula_complex(a.re / b.re, a.im / b.re);
    tegula_c128 q;
    if (fabs(b.re) >= fabs(b.im)) {
        double ratio = b.im / b.re, scale = b.re + b.im * ratio;
        q = tegula_complex((a.re + a.im * ratio) / scale, (a.im - a.re * ratio) / scale);
    } else {
        double ratio = b.re / b.im, scale = b.re * ratio + b.im;
        q = tegula_complex((a.re * ratio + a.im) / scale, (a.im * ratio - a.re) / scale);
    }
    return tegula_corrected(q, a, b);
}
