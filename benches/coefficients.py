"""The coefficients of crates/codegen-cpu/src/simd/mathlib.

Least squares in the Chebyshev basis on 4,000 Chebyshev points of the interval,
reweighted towards the largest error (Lawson's method), in double precision. Prints
each polynomial from the constant on, and its largest error before rounding.

Those of `binary64` need more than double precision: they interpolate at Chebyshev points, to 50
digits, and the error printed is that of the rounded ones.

    python benches/coefficients.py

needs `numpy` and `mpmath`.
"""

import math

import mpmath as mp
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


# Those of binary64.

mp.mp.dps = 50


def interpolate(name, f, low, high, degree, relative):
    """`relative(x, p)`: the error that `p` in place of `f(x)` makes."""
    low, high = mp.mpf(low), mp.mpf(high)
    middle, reach = (low + high) / 2, (high - low) / 2
    # Of an even number, none is 0, where the functions are given by limits.
    count = degree + 1
    points = [middle + reach * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    matrix = mp.matrix([[x**k for k in range(count)] for x in points])
    c = [float(x) for x in mp.lu_solve(matrix, mp.matrix([f(x) for x in points]))]
    tries = (low + 2 * reach * (mp.mpf(i) + mp.mpf(1) / 3) / 1000 for i in range(1000))
    horner = [mp.mpf(x) for x in reversed(c)]
    error = max(abs(relative(x, mp.polyval(horner, x))) for x in tries)
    print(f"{name}: {mp.nstr(error, 2)}")
    for x in c:
        print("   ", repr(x))


half_octave = mp.log(2) / 2 * mp.mpf("1.001")
quotients = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.002")
log_of = lambda z: 2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z)
tiny = mp.mpf(10) ** -16
interpolate(
    "expm1, binary64",
    lambda r: (mp.expm1(r) - r) / r**2,
    -half_octave,
    half_octave,
    9,
    lambda r, p: (r + r * r * p) / mp.expm1(r) - 1,
)
interpolate("log, binary64", lambda z: (log_of(z) - 2) / z, tiny, quotients, 6, lambda z, p: (2 + z * p) / log_of(z) - 1)
interpolate(
    "log for powers, binary64",
    lambda z: (log_of(z) - 2 - 2 * z / 3) / z**2,
    tiny,
    quotients,
    7,
    lambda z, p: (2 + 2 * z / 3 + z * z * p - log_of(z)) / 2,
)
interpolate(
    "exp2 - 1, binary64",
    lambda t: (mp.mpf(2) ** t - 1) / t,
    mp.mpf("-0.5003"),
    mp.mpf("0.5003"),
    11,
    lambda t, p: (1 + t * p) / mp.mpf(2) ** t - 1,
)
eighths = (mp.pi / 4 * mp.mpf("1.002")) ** 2
sine_of = lambda u: mp.sin(mp.sqrt(u)) / mp.sqrt(u)
cosine_of = lambda u: mp.cos(mp.sqrt(u))
interpolate("sin, binary64", lambda u: (sine_of(u) - 1) / u, tiny, eighths, 5, lambda u, p: (1 + u * p) / sine_of(u) - 1)
interpolate(
    "cos, binary64",
    lambda u: (cosine_of(u) - 1 + u / 2) / u**2,
    tiny,
    eighths,
    5,
    lambda u, p: (1 - u / 2 + u * u * p) / cosine_of(u) - 1,
)
interpolate(
    "atan, binary64",
    lambda u: (mp.atan(mp.sqrt(u)) / mp.sqrt(u) - 1) / u,
    tiny,
    (mp.sqrt(2) - 1) ** 2 * mp.mpf("1.002"),
    11,
    lambda u, p: (1 + u * p) * mp.sqrt(u) / mp.atan(mp.sqrt(u)) - 1,
)
erf_of = lambda u: mp.erf(mp.sqrt(u)) / mp.sqrt(u)
interpolate("erf low, binary64", lambda u: erf_of(u) - 1, tiny, 1, 12, lambda u, p: (1 + p) / erf_of(u) - 1)
# Of w = (x - 2) / (x + 2).
place = lambda w: 2 * (1 + w) / (1 - w)
interpolate(
    "erf high, binary64",
    lambda w: mp.erfc(place(w)) * mp.exp(place(w) ** 2),
    mp.mpf(-1) / 3,
    mp.mpf(1) / 2,
    15,
    lambda w, p: mp.erfc(place(w)) - p * mp.exp(-(place(w) ** 2)),
)
print("2 / pi, 1216 bits after the point:")
mp.mp.dps = 600
bits = f"{int(2 / mp.pi * mp.mpf(2) ** 1216):0304x}"
for i in range(0, 304, 16):
    print("    0x" + "_".join(bits[i + j : i + j + 4] for j in range(0, 16, 4)))
