// Bits U of a float of E exponent and M mantissa bits, rounded to fewer; numbers below
// the smaller exponent range become zero, above it infinity; NaN stays as it is.
template <typename U, int E, int M> __device__ U tegula_reduce_precision(U x, unsigned int e, unsigned int m) {
    const U sign_mask = (U)1 << (E + M), mantissa = ((U)1 << M) - 1, exponents = (((U)1 << E) - 1) << M;
    if ((x & exponents) == exponents && (x & mantissa) != 0) return x;
    U sign = x & sign_mask, size = x & (exponents | mantissa);
    if (m < M) {
        U unit = (U)1 << (M - m), last = (size >> (M - m)) & 1;
        size = (size + (unit / 2 - 1) + last) & ~(unit - 1);
    }
    if (e < E) {
        const U bias = ((U)1 << (E - 1)) - 1;
        U reduced = ((U)1 << ((e > 1 ? e : 1) - 1)) - 1, exponent = size >> M;
        if (exponent > bias + reduced) size = exponents;
        else if (exponent <= bias - reduced) size = 0;
    }
    return sign | size;
}
