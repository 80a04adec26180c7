// Functions of complex numbers, in double; the branches are those of the evaluator.
__device__ tegula_c128 tegula_c_log(tegula_c128 x) { return tegula_complex(log(hypot(x.re, x.im)), atan2(x.im, x.re)); }

__device__ tegula_c128 tegula_c_exp(tegula_c128 x) {
    double size = exp(x.re);
    if (x.im == 0.0) return tegula_complex(size, x.im);
    return tegula_complex(size * tegula_cos(x.im), size * tegula_sin(x.im));
}

__device__ tegula_c128 tegula_c_expm1(tegula_c128 x) {
    if (x.im == 0.0) return tegula_complex(expm1(x.re), x.im);
    double half = tegula_sin(x.im / 2.0);
    return tegula_complex(expm1(x.re) * tegula_cos(x.im) - 2.0 * half * half, exp(x.re) * tegula_sin(x.im));
}

__device__ tegula_c128 tegula_c_log1p(tegula_c128 x) {
    double real = fabs(x.re) < 0.5 && fabs(x.im) < 0.5
        ? log1p(x.re * (2.0 + x.re) + x.im * x.im) / 2.0 : log(hypot(1.0 + x.re, x.im));
    return tegula_complex(real, atan2(x.im, 1.0 + x.re));
}

__device__ tegula_c128 tegula_c_sqrt(tegula_c128 x) {
    if (x.re == 0.0 && x.im == 0.0) return tegula_complex(0.0, x.im);
    if (isinf(x.im)) return tegula_complex(fabs(x.im), x.im);
    double t = sqrt((fabs(x.re) + hypot(x.re, x.im)) / 2.0);
    if (x.re >= 0.0) return tegula_complex(t, x.im / (2.0 * t));
    return tegula_complex(fabs(x.im) / (2.0 * t), copysign(t, x.im));
}

__device__ tegula_c128 tegula_c_rsqrt(tegula_c128 x) { return tegula_quotient(tegula_complex(1.0, 0.0), tegula_c_sqrt(x)); }

__device__ tegula_c128 tegula_c_sign(tegula_c128 x) {
    double size = hypot(x.re, x.im);
    return size == 0.0 ? x : tegula_complex(x.re / size, x.im / size);
}

__device__ tegula_c128 tegula_c_logistic(tegula_c128 x) {
    tegula_c128 one = tegula_complex(1.0, 0.0), e = tegula_c_exp(tegula_negate(x));
    return tegula_quotient(one, tegula_add(one, e));
}

__device__ tegula_c128 tegula_c_tanh(tegula_c128 x) {
    if (fabs(x.re) > 20.0) {
        double tail = 4.0 * exp(-2.0 * fabs(x.re)) * tegula_sin(x.im) * tegula_cos(x.im);
        double side = copysign(1.0, x.re);
        if (tail == tail) return tegula_complex(side, tail);
        return isinf(x.re) ? tegula_complex(side, 0.0) : tegula_complex(tail, tail);
    }
    double s = sinh(x.re), c = tegula_cos(x.im), scale = s * s + c * c;
    return tegula_complex(s * cosh(x.re) / scale, x.im == 0.0 ? x.im : tegula_sin(x.im) * c / scale);
}

__device__ tegula_c128 tegula_c_tan(tegula_c128 x) {
    tegula_c128 t = tegula_c_tanh(tegula_complex(-x.im, x.re));
    return tegula_complex(t.im, -t.re);
}

__device__ tegula_c128 tegula_c_sin(tegula_c128 x) { return tegula_complex(tegula_sin(x.re) * cosh(x.im), tegula_cos(x.re) * sinh(x.im)); }

__device__ tegula_c128 tegula_c_cos(tegula_c128 x) { return tegula_complex(tegula_cos(x.re) * cosh(x.im), -tegula_sin(x.re) * sinh(x.im)); }

__device__ tegula_c128 tegula_c_sinh(tegula_c128 x) { return tegula_complex(sinh(x.re) * tegula_cos(x.im), cosh(x.re) * tegula_sin(x.im)); }

__device__ tegula_c128 tegula_c_cosh(tegula_c128 x) { return tegula_complex(cosh(x.re) * tegula_cos(x.im), sinh(x.re) * tegula_sin(x.im)); }

__device__ tegula_c128 tegula_c_power(tegula_c128 a, tegula_c128 b) {
    if (a.re == 0.0 && a.im == 0.0) {
        if (b.re == 0.0 && b.im == 0.0) return tegula_complex(1.0, 0.0);
        if (b.im == 0.0 && b.re > 0.0) return tegula_complex(0.0, 0.0);
    }
    double size = log(hypot(a.re, a.im)), angle = atan2(a.im, a.re);
    double result = exp(b.re * size - b.im * angle), turn = b.im * size + b.re * angle;
    return tegula_complex(result * tegula_cos(turn), result * tegula_sin(turn));
}

__device__ tegula_c128 tegula_c_cbrt(tegula_c128 x) { return tegula_c_power(x, tegula_complex(1.0 / 3.0, 0.0)); }

// The root by halving the angle, and with it the inverse functions.
__device__ tegula_c128 tegula_c_polar_sqrt(tegula_c128 x) {
    if (x.im == 0.0) {
        if (!signbit(x.re)) return tegula_complex(sqrt(x.re), x.im);
        double size = sqrt(-x.re);
        return tegula_complex(0.0, signbit(x.im) ? -size : size);
    }
    if (x.re == 0.0) {
        double part = sqrt(fabs(x.im) / 2.0);
        return tegula_complex(part, signbit(x.im) ? -part : part);
    }
    double size = sqrt(hypot(x.re, x.im)), angle = atan2(x.im, x.re) / 2.0;
    return tegula_complex(size * tegula_cos(angle), size * tegula_sin(angle));
}

__device__ tegula_c128 tegula_c_times_i(tegula_c128 x) { return tegula_multiply(tegula_complex(0.0, 1.0), x); }

__device__ tegula_c128 tegula_c_over_i(tegula_c128 x) { return tegula_multiply(tegula_complex(-0.0, -1.0), x); }

__device__ tegula_c128 tegula_c_one_less_square(tegula_c128 x) {
    return tegula_subtract(tegula_complex(1.0, 0.0), tegula_multiply(x, x));
}

__device__ tegula_c128 tegula_c_asin(tegula_c128 x) {
    return tegula_c_over_i(tegula_c_log(tegula_add(tegula_c_polar_sqrt(tegula_c_one_less_square(x)), tegula_c_times_i(x))));
}

__device__ tegula_c128 tegula_c_acos(tegula_c128 x) {
    return tegula_c_over_i(tegula_c_log(tegula_add(tegula_c_times_i(tegula_c_polar_sqrt(tegula_c_one_less_square(x))), x)));
}

__device__ tegula_c128 tegula_c_asinh(tegula_c128 x) {
    tegula_c128 root = tegula_c_polar_sqrt(tegula_add(tegula_complex(1.0, 0.0), tegula_multiply(x, x)));
    return tegula_c_log(tegula_add(x, root));
}

__device__ tegula_c128 tegula_c_acosh(tegula_c128 x) {
    tegula_c128 above = tegula_c_polar_sqrt(tegula_complex((x.re + 1.0) / 2.0, x.im / 2.0));
    tegula_c128 below = tegula_c_polar_sqrt(tegula_complex((x.re - 1.0) / 2.0, x.im / 2.0));
    return tegula_multiply(tegula_complex(2.0, 0.0), tegula_c_log(tegula_add(above, below)));
}

__device__ tegula_c128 tegula_c_atanh(tegula_c128 x) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    if (x.im == 0.0 && x.re == 1.0) return tegula_complex(infinity, 0.0);
    if (x.im == 0.0 && x.re == -1.0) return tegula_complex(-infinity, 0.0);
    tegula_c128 sum = tegula_c_log(tegula_complex(1.0 + x.re, x.im)), rest = tegula_c_log(tegula_complex(1.0 - x.re, -x.im));
    return tegula_complex((sum.re - rest.re) / 2.0, (sum.im - rest.im) / 2.0);
}

__device__ tegula_c128 tegula_c_atan2(tegula_c128 y, tegula_c128 x) {
    tegula_c128 root = tegula_c_sqrt(tegula_add(tegula_multiply(x, x), tegula_multiply(y, y)));
    return tegula_c_over_i(tegula_c_log(tegula_quotient(tegula_add(x, tegula_c_times_i(y)), root)));
}
