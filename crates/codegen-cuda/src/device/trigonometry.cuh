// The bits of 2 / pi after the point.
__constant__ unsigned int tegula_two_over_pi[8] = {
    0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};

// x less the nearest multiple of pi / 2, and which multiple it is modulo 4: in double
// for small x, by the bits of 2 / pi that matter for large ones (Payne and Hanek,
// "Radian reduction for trigonometric functions", 1983), with no array of its own.
__device__ float tegula_reduce(float x, int &quadrant) {
    unsigned int bits = (unsigned int)__float_as_int(x), exponent = (bits >> 23) & 0xff;
    if (exponent < 127 + 25) {
        double multiple = rint((double)x * 0.6366197723675814);
        quadrant = (int)multiple;
        if (multiple == 0.0) return x;
        return (float)fma(-multiple, 6.123233995736766e-17, fma(-multiple, 1.5707963267948966, (double)x));
    }
    if (exponent == 0xff) {
        quadrant = 0;
        return x - x;
    }
    // 96 bits from the first that does not give a multiple of 4.
    unsigned int first = exponent - 127 - 25, word = first / 32, shift = first % 32;
    unsigned int a = tegula_two_over_pi[word], b = tegula_two_over_pi[word + 1];
    unsigned int c = tegula_two_over_pi[word + 2], d = tegula_two_over_pi[word + 3];
    unsigned int high = __funnelshift_l(b, a, shift), middle = __funnelshift_l(c, b, shift);
    unsigned int low = __funnelshift_l(d, c, shift);
    unsigned long long mantissa = (bits & 0x7fffff) | 0x800000;
    unsigned long long product = mantissa * low;
    product = mantissa * middle + (product >> 32);
    unsigned int middle_word = (unsigned int)product;
    unsigned int high_word = (unsigned int)mantissa * high + (unsigned int)(product >> 32);
    // Two bits of the quadrant, then the fraction, taken as signed.
    unsigned long long fraction = ((unsigned long long)high_word << 34) | ((unsigned long long)middle_word << 2);
    quadrant = (int)(high_word >> 30) + (int)(fraction >> 63);
    double rest = (double)(long long)fraction * 8.515303950216386e-20;
    if (bits >> 31) {
        quadrant = -quadrant;
        rest = -rest;
    }
    return (float)rest;
}

// Sine and cosine up to pi / 4: the polynomials of Cephes' sinf.
__device__ float tegula_sine(float r) {
    float s = r * r;
    float p = fmaf(fmaf(-1.9515295891e-4f, s, 8.3321608736e-3f), s, -1.6666654611e-1f);
    return fmaf(p * s, r, r);
}

__device__ float tegula_cosine(float r) {
    float s = r * r;
    float p = fmaf(fmaf(2.443315711809948e-5f, s, -1.388731625493765e-3f), s, 4.166664568298827e-2f);
    return fmaf(p * s, s, fmaf(-0.5f, s, 1.0f));
}

__device__ float tegula_sin(float x) {
    int quadrant;
    float r = tegula_reduce(x, quadrant), y = quadrant & 1 ? tegula_cosine(r) : tegula_sine(r);
    // Zero keeps its sign.
    return x == 0 ? x : quadrant & 2 ? -y : y;
}

__device__ float tegula_cos(float x) {
    int quadrant;
    float r = tegula_reduce(x, quadrant), y = quadrant & 1 ? tegula_sine(r) : tegula_cosine(r);
    return (quadrant + 1) & 2 ? -y : y;
}

__device__ float tegula_tan(float x) {
    int quadrant;
    float r = tegula_reduce(x, quadrant), s = tegula_sine(r), c = tegula_cosine(r);
    return x == 0 ? x : quadrant & 1 ? -c / s : s / c;
}

// More of the bits of 2 / pi, after 64 zeros.
__constant__ unsigned long long tegula_two_over_pi_long[20] = {
    0x0000000000000000ull, 0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull,
    0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull,
    0x4f463f669e5fea2dull, 0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull};

// The sum of two numbers, and what is left of it.
__device__ double tegula_two_sum(double a, double b, double &rest) {
    double sum = a + b, other = sum - a;
    rest = (a - (sum - other)) + (b - other);
    return sum;
}

// The same for doubles, with what the result leaves of the difference: pi / 2 in three
// parts for x up to 2^30, of which the first two times the multiple are exact.
__device__ double tegula_reduce(double x, int &quadrant, double &rest) {
    unsigned long long bits = (unsigned long long)__double_as_longlong(x);
    int exponent = (int)(bits >> 52) & 0x7ff;
    if (exponent < 1023 + 30) {
        double multiple = rint(x * 0.6366197723675814);
        quadrant = (int)multiple;
        rest = 0.0;
        if (multiple == 0.0) return x;
        double first = fma(-multiple, 1.5707963267948966, x);
        double second = multiple * 6.123233995736766e-17;
        double third = fma(multiple, 6.123233995736766e-17, -second);
        double left, sum = tegula_two_sum(first, -second, left);
        left = fma(-multiple, -1.4973849048591833e-33, left - third);
        return tegula_two_sum(sum, left, rest);
    }
    if (exponent == 0x7ff) {
        quadrant = 0;
        rest = 0.0;
        return x - x;
    }
    // 192 bits from the first that does not give a multiple of 4, times the mantissa.
    unsigned int first = exponent - 1075 + 62, word = first / 64, shift = first % 64;
    unsigned long long a = tegula_two_over_pi_long[word], b = tegula_two_over_pi_long[word + 1];
    unsigned long long c = tegula_two_over_pi_long[word + 2], d = tegula_two_over_pi_long[word + 3];
    if (shift != 0) {
        a = a << shift | b >> (64 - shift);
        b = b << shift | c >> (64 - shift);
        c = c << shift | d >> (64 - shift);
    }
    unsigned long long mantissa = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
    unsigned long long low = mantissa * c, middle = __umul64hi(mantissa, c), add = mantissa * b;
    middle += add;
    unsigned long long high = mantissa * a + __umul64hi(mantissa, b) + (middle < add ? 1 : 0);
    // Two bits of the quadrant, then the fraction, taken as signed.
    unsigned long long fraction = high << 2 | middle >> 62, tail = middle << 2 | low >> 62;
    quadrant = (int)(high >> 62) + (int)(fraction >> 63);
    double left, turn = tegula_two_sum((double)(int)(fraction >> 32) * 2.3283064365386963e-10,
                                       (double)(unsigned int)fraction * 5.421010862427522e-20, left);
    left += (double)tail * 2.938735877055719e-39;
    double whole = turn * 1.5707963267948966;
    left = fma(turn, 1.5707963267948966, -whole) + fma(turn, 6.123233995736766e-17, left * 1.5707963267948966);
    double result = tegula_two_sum(whole, left, rest);
    if (bits >> 63) {
        quadrant = -quadrant;
        rest = -rest;
        return -result;
    }
    return result;
}

// Sine and cosine of r + rest up to pi / 4: the polynomials of fdlibm.
__device__ double tegula_sine(double r, double rest) {
    double s = r * r, cube = s * r;
    double p = fma(fma(fma(fma(fma(1.58969099521155010221e-10, s, -2.50507602534068634195e-08), s,
        2.75573137070700676789e-06), s, -1.98412698298579493134e-04), s, 8.33333333332248946124e-03), s,
        -1.66666666666666324348e-01);
    return r + fma(cube, p, fma(-0.5 * s, rest, rest));
}

__device__ double tegula_cosine(double r, double rest) {
    double s = r * r, half = 0.5 * s, one = 1.0 - half;
    double p = fma(fma(fma(fma(fma(-1.13596475577881948265e-11, s, 2.08757232129817482790e-09), s,
        -2.75573143513906633035e-07), s, 2.48015872894767294178e-05), s, -1.38888888888741095749e-03), s,
        4.16666666666666019037e-02);
    return one + (((1.0 - one) - half) + fma(s * s, p, -r * rest));
}

__device__ double tegula_sin(double x) {
    int quadrant;
    double rest, r = tegula_reduce(x, quadrant, rest);
    double y = quadrant & 1 ? tegula_cosine(r, rest) : tegula_sine(r, rest);
    // Zero keeps its sign.
    return x == 0 ? x : quadrant & 2 ? -y : y;
}

__device__ double tegula_cos(double x) {
    int quadrant;
    double rest, r = tegula_reduce(x, quadrant, rest);
    double y = quadrant & 1 ? tegula_sine(r, rest) : tegula_cosine(r, rest);
    return (quadrant + 1) & 2 ? -y : y;
}

__device__ double tegula_tan(double x) {
    int quadrant;
    double rest, r = tegula_reduce(x, quadrant, rest);
    double s = tegula_sine(r, rest), c = tegula_cosine(r, rest);
    return x == 0 ? x : quadrant & 1 ? -c / s : s / c;
}
