"""The coefficients of crates/codegen-cpu/src/vector/mathlib.

Least squares in the Chebyshev basis on 4,000 Chebyshev points of the interval,
reweighted towards the largest error (Lawson's method), in double precision. Prints
each polynomial from the constant on, and its largest error before rounding.

    python benches/coefficients.py
"""

import math

import numpy as np
from numpy.polynomial import chebyshev, polynomial


def fit(f, weight, low, high, degree, rounds=200):
    t = np.cos(np.pi * (np.arange(4000) + 0.5) / 4000)
    x = low + (high - low) * (t + 1) / 2
    y, scale, w = f(x), weight(x), np.ones_like(x)
    basis = chebyshev.chebvander(t, degree)
    best = (math.inf, None)
    for _ in range(rounds):
        s = np.sqrt(w) * scale
        c, *_ = np.linalg.lstsq(basis * s[:, None], y * s, rcond=None)
        error = np.abs((basis @ c - y) * scale)
        if error.max() < best[0]:
            best = (error.max(), c)
        w = w * (error / error.max() + 1e-3)
        w /= w.mean()
    a, b = 2 / (high - low), -(low + high) / (high - low)
    out = np.zeros(1)
    for c in chebyshev.cheb2poly(best[1])[::-1]:
        out = polynomial.polyadd(polynomial.polymul(out, [b, a]), [c])
    return best[0], out[: degree + 1]


def show(name, result, double=False):
    error, c = result
    print(f"{name}: {error:.2g}")
    for x in c:
        print("   ", repr(float(x if double else np.float32(x))))


def exp_tail(r):
    """(e^r - 1 - r) / r^2, by its series."""
    total, term = np.zeros_like(r), np.ones_like(r) / 2
    for k in range(3, 22):
        total, term = total + term, term * r / k
    return total


@np.vectorize
def log_tail(f):
    """(log(1 + f) - f + f^2 / 2) / f^3, by its series where that is better."""
    if abs(f) < 0.05:
        return sum((1 if k % 2 else -1) * f ** (k - 3) / k for k in range(3, 30))
    return (math.log1p(f) - f + f * f / 2) / f**3


erf_low = np.vectorize(lambda u: math.erf(math.sqrt(u)) / math.sqrt(u))
erf_high = np.vectorize(lambda t: math.erfc(t + 2.4))


def log2_series(u):
    """log2((1 + s) / (1 - s)) / s with u = s^2."""
    s = np.sqrt(u)
    return np.where(u < 1e-8, 1 + u / 3, np.arctanh(s) / s) * 2 / math.log(2)


@np.vectorize
def atan_tail(u):
    """(atan(t) - t) / t^3 with u = t^2, by its series where that is better."""
    if u < 1e-2:
        return sum((-1 if k % 2 else 1) * u ** (k - 1) / (2 * k + 1) for k in range(1, 12))
    return (math.atan(math.sqrt(u)) / math.sqrt(u) - 1) / u


@np.vectorize
def sine_tail(u):
    """(sin(r) / r - 1) / r^2 with u = r^2, by its series."""
    return sum((-1) ** k * u ** (k - 1) / math.factorial(2 * k + 1) for k in range(1, 12))


@np.vectorize
def cosine_tail(u):
    """(cos(r) - 1 + r^2 / 2) / r^4 with u = r^2, by its series."""
    return sum((-1) ** k * u ** (k - 2) / math.factorial(2 * k) for k in range(2, 12))


half = math.log(2) / 2 * 1.01
low, high = math.sqrt(0.5) - 1.001, math.sqrt(2) - 0.999
tangent = ((math.sqrt(2) - 1) / (math.sqrt(2) + 1)) ** 2 * 1.001
one = lambda x: np.ones_like(x)
show("exp", fit(exp_tail, lambda r: r * r * np.exp(-r), -half, half, 4))
show("expm1", fit(exp_tail, np.abs, -half, half, 5))
show("log", fit(log_tail, lambda f: np.abs(f**3 / np.log1p(f)), low, high, 8))
show("erf low", fit(erf_low, lambda u: 1 / erf_low(u), 1e-9, 1, 6))
show("erf high", fit(erf_high, one, -1.4, 1.53, 12))
show("exp2", fit(np.exp2, lambda x: np.exp2(-x), -0.5001, 0.5001, 9), True)
show("log2", fit(log2_series, lambda u: 1 / log2_series(u), 1e-12, tangent, 6), True)
eighth = (math.pi / 4 * 1.002) ** 2
show("sin", fit(sine_tail, lambda u: u, 1e-12, eighth, 2))
show("cos", fit(cosine_tail, lambda u: u * u, 1e-12, eighth, 2))
angle = lambda u: np.arctan(np.sqrt(u))
show("atan", fit(atan_tail, lambda u: u * np.sqrt(u) / angle(u), 1e-12, 1, 9))
show("expm1, f64", fit(exp_tail, np.abs, -half, half, 7), True)
show("sin, f64", fit(sine_tail, lambda u: u, 1e-12, eighth, 3), True)
show("cos, f64", fit(cosine_tail, lambda u: u * u, 1e-12, eighth, 3), True)
show("atan, f64", fit(atan_tail, lambda u: u * np.sqrt(u) / angle(u), 1e-12, 1, 12), True)
