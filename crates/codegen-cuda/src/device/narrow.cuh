// Floats of few bits: E exponent bits, M mantissa bits, a bias, and what is special:
// 0 as in IEEE 754; 1 no infinities, the last code is NaN; 2 finite only; 3 no
// infinities and the code of -0 is NaN; 4 exponents only.
template <int E, int M, int BIAS, int SPECIALS> __device__ double tegula_decode_wide(unsigned int code) {
    const unsigned int magnitudes = 1u << (E + M);
    const unsigned int largest = SPECIALS == 0 ? magnitudes - (1u << M) - 1
        : (SPECIALS == 1 || SPECIALS == 4) ? magnitudes - 2 : magnitudes - 1;
    const double nan = __longlong_as_double(0x7ff8000000000000ll);
    bool negative = SPECIALS != 4 && (code & magnitudes) != 0;
    unsigned int magnitude = code & (magnitudes - 1);
    if (SPECIALS == 3 && negative && magnitude == 0) return nan;
    double size;
    if (magnitude <= largest) {
        int field = (int)(magnitude >> M);
        unsigned int significand = magnitude & ((1u << M) - 1);
        if (field == 0 && SPECIALS != 4) field = 1;
        else significand |= 1u << M;
        size = (double)significand * __longlong_as_double((long long)(1023 + field - BIAS - M) << 52);
    } else if (SPECIALS == 0 && magnitude == largest + 1) {
        size = __longlong_as_double(0x7ff0000000000000ll);
    } else {
        size = nan;
    }
    return negative ? -size : size;
}

template <int E, int M, int BIAS, int SPECIALS> __device__ float tegula_decode(unsigned int code) {
    return (float)tegula_decode_wide<E, M, BIAS, SPECIALS>(code);
}

// The code nearest to a number, ties to even, rounded once.
template <int E, int M, int BIAS, int SPECIALS> __device__ unsigned int tegula_encode(double x) {
    const unsigned int magnitudes = 1u << (E + M);
    const unsigned int largest = SPECIALS == 0 ? magnitudes - (1u << M) - 1
        : (SPECIALS == 1 || SPECIALS == 4) ? magnitudes - 2 : magnitudes - 1;
    unsigned long long bits = (unsigned long long)__double_as_longlong(x);
    bool negative = (bits >> 63) != 0;
    unsigned long long size = bits & 0x7fffffffffffffffull;
    unsigned int sign = SPECIALS != 4 && negative ? magnitudes : 0;
    bool is_nan = size > 0x7ff0000000000000ull;
    if (is_nan) {
        if (SPECIALS == 0) return sign | (largest + 1) | (1u << (M > 0 ? M - 1 : 0));
        if (SPECIALS == 1) return sign | (largest + 1);
        if (SPECIALS == 2) return negative ? 0 : magnitudes;
        if (SPECIALS == 3) return magnitudes;
        return largest + 1;
    }
    bool infinite = size == 0x7ff0000000000000ull;
    // The significand has 53 bits and the number is significand * 2^(exponent - 52).
    int exponent = (int)(size >> 52) - 1023;
    unsigned long long significand = size & 0xfffffffffffffull;
    if (exponent == -1023) {
        exponent = -1022;
        if (significand != 0) {
            int shift = __clzll((long long)significand) - 11;
            significand <<= shift;
            exponent -= shift;
        }
    } else {
        significand |= 1ull << 52;
    }
    if (SPECIALS == 4) {
        if (negative || significand == 0 || infinite) return largest + 1;
        int code = exponent + (int)((significand >> 51) & 1) + BIAS;
        code = code < 0 ? 0 : code;
        return (unsigned int)code < largest + 1 ? (unsigned int)code : largest + 1;
    }
    unsigned long long magnitude;
    if (infinite) {
        magnitude = ~0ull;
    } else {
        const int smallest = 1 - BIAS;
        int effective = exponent < smallest ? smallest : exponent;
        unsigned int dropped = (unsigned int)((effective - exponent) + (52 - M));
        unsigned long long kept = 0;
        if (dropped < 64) {
            kept = significand >> dropped;
            unsigned long long rest = significand & ((1ull << dropped) - 1), half = 1ull << (dropped - 1);
            if (rest > half || (rest == half && (kept & 1))) kept += 1;
        }
        magnitude = ((unsigned long long)(effective - smallest) << M) + kept;
    }
    if (magnitude <= largest) return SPECIALS == 3 && magnitude == 0 ? 0 : sign | (unsigned int)magnitude;
    if (SPECIALS == 0) return sign | (largest + 1);
    if (SPECIALS == 1) return sign | (largest + 1);
    if (SPECIALS == 3) return magnitudes;
    return sign | largest;
}

// An integer as a double that keeps what a second rounding needs to know.
__device__ double tegula_to_odd(unsigned long long size, bool negative) {
    int excess = 64 - __clzll((long long)size) - 53;
    excess = excess < 0 ? 0 : excess;
    unsigned long long kept = size >> excess;
    kept |= (kept << excess) != size ? 1 : 0;
    double result = (double)kept * __longlong_as_double((long long)(1023 + excess) << 52);
    return negative ? -result : result;
}

__device__ double tegula_to_odd(unsigned long long x) { return tegula_to_odd(x, false); }

__device__ double tegula_to_odd(long long x) {
    return tegula_to_odd(x < 0 ? 0ull - (unsigned long long)x : (unsigned long long)x, x < 0);
}
