// The quotient rounded down, and what it leaves: of the sign of the divisor.
template <typename T> __device__ T tegula_floor_div(T a, T b) {
    T quotient = a / b;
    return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

template <typename T> __device__ T tegula_ceil_div(T a, T b) {
    T quotient = a / b;
    return quotient + ((a % b != 0 && (a < 0) == (b < 0)) ? 1 : 0);
}

template <typename T> __device__ T tegula_mod(T a, T b) {
    T rest = a % b;
    return rest + ((rest != 0 && (rest < 0) != (b < 0)) ? b : 0);
}

template <typename T> __device__ T tegula_min(T a, T b) { return a < b ? a : b; }

template <typename T> __device__ T tegula_max(T a, T b) { return a > b ? a : b; }
