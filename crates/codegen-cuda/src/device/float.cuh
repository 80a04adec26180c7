// IEEE 754-2019 maximum and minimum: NaN if either is, +0 above -0.
__device__ float tegula_maximum(float a, float b) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

__device__ float tegula_minimum(float a, float b) {
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

__device__ double tegula_maximum(double a, double b) {
    if (a > b) return a;
    if (b > a) return b;
    if (a == b) return __longlong_as_double(__double_as_longlong(a) & __double_as_longlong(b));
    return a + b;
}

__device__ double tegula_minimum(double a, double b) {
    if (a < b) return a;
    if (b < a) return b;
    if (a == b) return __longlong_as_double(__double_as_longlong(a) | __double_as_longlong(b));
    return a + b;
}

// -1 or 1; a zero or NaN as it is.
__device__ float tegula_sign(float x) { return (x != x || x == 0.0f) ? x : copysignf(1.0f, x); }

__device__ double tegula_sign(double x) { return (x != x || x == 0.0) ? x : copysign(1.0, x); }

// A zero of the same sign in place of a subnormal number.
__device__ float tegula_flushed(float x) { return fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x; }

__device__ float tegula_logistic(float x) { return tegula_flushed(1.0f / (1.0f + expf(-x))); }

__device__ double tegula_logistic(double x) { return 1.0 / (1.0 + exp(-x)); }

// Truncation with saturation, NaN to 0.
__device__ int tegula_to_int(float x) { return x != x ? 0 : __float2int_rz(x); }

__device__ int tegula_to_int(double x) { return x != x ? 0 : __double2int_rz(x); }

__device__ unsigned int tegula_to_uint(float x) { return x != x ? 0u : __float2uint_rz(x); }

__device__ unsigned int tegula_to_uint(double x) { return x != x ? 0u : __double2uint_rz(x); }

__device__ long long tegula_to_long(float x) { return x != x ? 0ll : __float2ll_rz(x); }

__device__ long long tegula_to_long(double x) { return x != x ? 0ll : __double2ll_rz(x); }

__device__ unsigned long long tegula_to_ulong(float x) { return x != x ? 0ull : __float2ull_rz(x); }

__device__ unsigned long long tegula_to_ulong(double x) { return x != x ? 0ull : __double2ull_rz(x); }

__device__ int tegula_clamp_int(int x, int low, int high) { return x < low ? low : (x > high ? high : x); }

// A number as a code of at most a byte decodes to it: there is one NaN, with a sign or without.
__device__ float tegula_of_code(float x, bool has_sign) {
    return x == x ? x : __int_as_float(0x7fc00000 | (has_sign ? __float_as_int(x) & 0x80000000 : 0));
}

// An integer that is ordered as IEEE's total order orders the float.
__device__ int tegula_total_order(float x) {
    int bits = __float_as_int(x);
    return bits ^ (int)((unsigned int)(bits >> 31) >> 1);
}

__device__ long long tegula_total_order(double x) {
    long long bits = __double_as_longlong(x);
    return bits ^ (long long)((unsigned long long)(bits >> 63) >> 1);
}
