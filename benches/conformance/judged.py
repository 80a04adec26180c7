"""Compares results: they must be equal up to rounding or, where several results are correct
(eigenvectors, singular vectors, unstable sorts), satisfy the equations that define them."""

import numpy as np

# The tolerance, for another order of operations: this many units of the type's precision, relative
# to the element or, for operations that sum, to the largest result if that is larger.
UNITS = 256
PRECISION = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
# Functions that both sides compute by series or continued fractions.
SERIES = {"igamma", "igammac", "lgamma", "digamma", "regularized_incomplete_beta", "random_gamma"}
SERIES_UNITS = 4096


def precision(dtype):
    """The relative precision of a type's numbers; None for exact types."""
    name = np.dtype(dtype).name
    if name.startswith("complex"):
        return PRECISION["float32" if name == "complex64" else "float64"]
    if name.startswith("float8") or name.startswith("float4") or name.startswith("float6"):
        return 2.0**-2
    return PRECISION.get(name)


def wide(array):
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def apart(expected, found, units):
    """The difference of two arrays as a message; None if they are equal up to this many units."""
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return f"{found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
    unit = precision(expected.dtype)
    if unit is None:
        wrong = int(np.sum(expected != found))
        return f"{wrong} of {expected.size} elements are others" if wrong else None
    if expected.dtype.kind == "c":
        parts = [apart(np.ascontiguousarray(getattr(expected, p)), np.ascontiguousarray(getattr(found, p)), units) for p in ("real", "imag")]
        return parts[0] or parts[1]
    x, y = wide(expected), wide(found)
    finite = np.isfinite(x) & np.isfinite(y)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if not np.all(same | finite):
        return f"{int(np.sum(~same & ~finite))} of {x.size} elements are special numbers on one side"
    if not np.any(finite):
        return None
    scale = np.max(np.abs(x[finite]))
    worst = np.max(np.abs(x[finite] - y[finite]))
    return f"largest difference {worst / unit / scale:.3g} units of the largest" if worst > units * unit * scale else None


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def close(a, b, unit, size):
    scale = max(np.max(np.abs(a), initial=0), np.max(np.abs(b), initial=0), 1e-300)
    return np.all(np.abs(a - b) <= 64 * max(size, 1) * unit * scale) or not np.all(np.isfinite(a))


def orthonormal(x, unit):
    size = x.shape[-1]
    return close(adjoint(x) @ x, np.broadcast_to(np.eye(size), x.shape[:-2] + (size, size)), unit, x.shape[-2])


def matrix(inputs):
    return next(wide(array) for array in inputs if array.ndim >= 2)


def eigen(inputs, expected, found, params):
    """A v = v w with vectors of length 1, or of the adjoint where they are left ones; values in
    any order."""
    a, unit = matrix(inputs), precision(expected[0].dtype)
    values, vectors = wide(found[0]), [wide(v) for v in found[1:]]
    order = lambda w: np.sort_complex(w.astype(complex))
    # The error of an eigenvalue of a matrix that is far from normal may exceed its residual.
    if not close(order(wide(expected[0])), order(values), unit**0.5, 1):
        return "the eigenvalues are others"
    for number, v in enumerate(vectors):
        is_left = number == 0 and params.get("compute_left_eigenvectors")
        side = adjoint(a) if is_left else a
        w = np.conj(values) if side is not a else values
        if not close(side @ v, v * w[..., None, :], unit, a.shape[-1]):
            return "the eigenvectors' residual is too large"
        if not close(np.linalg.norm(v, axis=-2), np.ones(v.shape[:-2] + v.shape[-1:]), unit, a.shape[-1]):
            return "the eigenvectors are not of length 1"
    return None


def singular(inputs, expected, found, _):
    """Checks U s V^H = A with orthonormal columns and ordered values."""
    shapes = [f.shape for f in found]
    a, unit = matrix(inputs), precision(expected[0].dtype)
    at = next(i for i, shape in enumerate(shapes) if len(shape) == a.ndim - 1)
    if wrong := apart(expected[at], found[at], 1024):
        return f"the singular values are others: {wrong}"
    if len(found) < 3:
        return None
    s = wide(found[at])
    u, vh = [wide(f) for i, f in enumerate(found) if i != at]
    rank = s.shape[-1]
    if not close((u[..., :, :rank] * s[..., None, :]) @ vh[..., :rank, :], a, unit, max(a.shape[-2:])):
        return "U s V is not the operand"
    if not (orthonormal(u, unit) and orthonormal(adjoint(vh), unit)):
        return "the singular vectors are not orthonormal"
    return None


def hermitian(inputs, expected, found, _):
    at = min(range(len(expected)), key=lambda i: expected[i].ndim)
    if wrong := apart(expected[at], found[at], 1024):
        return f"the eigenvalues are others: {wrong}"
    for v in (wide(f) for i, f in enumerate(found) if i != at):
        unit = precision(expected[at].dtype)
        if not orthonormal(v, unit):
            return "the eigenvectors are not orthonormal"
    return None


def sorted_rows(_, expected, found, __):
    """Checks that keys are in order; the values of equal keys may be in any order."""
    if wrong := apart(expected[0], found[0], 0):
        return wrong
    def rows(results):
        words = [np.ascontiguousarray(r).view(f"u{r.dtype.itemsize}").astype(np.uint64) for r in results if r.dtype.itemsize <= 8]
        return sorted(zip(*(w.ravel().tolist() for w in words)))
    return None if rows(expected) == rows(found) else "the rows are others"


def selected(inputs, expected, found, _):
    """Checks the largest or smallest elements and their indices; of equal elements, any index."""
    if wrong := apart(expected[0], found[0], 0):
        return wrong
    operand, places = wide(inputs[0]), found[1].astype(np.int64)
    others = [at for at, sizes in enumerate(zip(operand.shape, places.shape)) if len(set(sizes)) > 1]
    axis = others[0] if others else -1
    in_order = np.sort(places, axis)
    if np.any(np.diff(in_order, axis=axis) == 0) or np.any((places < 0) | (places >= operand.shape[axis])):
        return "the places are none, or the same twice"
    return apart(wide(found[0]), np.take_along_axis(operand, places, axis), 0)


def difference(harness, inputs, expected, found):
    """The error of wrong results as a message; None for correct ones."""
    group = harness.group_name
    units = SERIES_UNITS if group in SERIES else UNITS
    wrong = [apart(e, f, units) for e, f in zip(expected, found)]
    if not any(wrong):
        return None
    several = {"eig": eigen, "svd": singular, "eigh": hermitian, "approx_top_k": selected}.get(group)
    if group == "sort" and not harness.params.get("is_stable", True):
        several = sorted_rows
    if several:
        return several(inputs, expected, found, harness.params)
    number, about = next((i, w) for i, w in enumerate(wrong) if w)
    return f"result {number}: {about}"
