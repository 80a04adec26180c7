// x / 0 has all bits set and x % 0 is x; the smallest number by -1 is itself, rest 0.
template <typename T> __device__ T tegula_divide(T a, T b) {
    if (b == 0) return (T)-1;
    if ((T)-1 < 0 && b == (T)-1) return (T)(0ull - (unsigned long long)a);
    return a / b;
}

template <typename T> __device__ T tegula_remainder(T a, T b) {
    if (b == 0) return a;
    if ((T)-1 < 0 && b == (T)-1) return 0;
    return a % b;
}

// A shift by the width or more, the amount read as unsigned, leaves 0 or the sign.
template <typename U> __device__ U tegula_shift_left(U a, U amount, unsigned int width) {
    return amount < width ? a << amount : 0;
}

template <typename U> __device__ U tegula_shift_right(U a, U amount, unsigned int width) {
    return amount < width ? a >> amount : 0;
}

template <typename S, typename U> __device__ S tegula_shift_right_arithmetic(S a, U amount, unsigned int width) {
    return a >> (amount < width ? amount : (U)(width - 1));
}

// The low bits of a power.
__device__ unsigned long long tegula_power_unsigned(unsigned long long base, unsigned long long exponent) {
    unsigned long long result = 1;
    while (exponent != 0) {
        if (exponent & 1) result *= base;
        base *= base;
        exponent >>= 1;
    }
    return result;
}

// A negative exponent gives what the reciprocal truncates to.
__device__ long long tegula_power_signed(long long base, long long exponent) {
    if (exponent >= 0) return (long long)tegula_power_unsigned((unsigned long long)base, (unsigned long long)exponent);
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
}
