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
    return quadrant & 2 ? -y : y;
}

__device__ float tegula_cos(float x) {
    int quadrant;
    float r = tegula_reduce(x, quadrant), y = quadrant & 1 ? tegula_sine(r) : tegula_cosine(r);
    return (quadrant + 1) & 2 ? -y : y;
}

__device__ float tegula_tan(float x) {
    int quadrant;
    float r = tegula_reduce(x, quadrant), s = tegula_sine(r), c = tegula_cosine(r);
    return quadrant & 1 ? -c / s : s / c;
}
