"""Tests LAPACK's routines as JAX calls them on CPUs: every routine, type and kind of matrix,
including empty matrices, batches, and matrices with NaNs or infinities.

Results are compared with those of XLA:CPU, which calls LAPACK: values, and the signs and the order
of vectors. If eigenvalues are equal or a matrix does not have full rank, vectors are not unique;
then the equations that they must satisfy are checked instead.
"""

import itertools
import zlib

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax._src.lax import linalg

import judged
from harnesses import arrays, hlo_text, safe, stored
from run import tegula

jax.config.update("jax_enable_x64", True)

UNITS = 4096
TYPES = ("float32", "float64", "complex64", "complex128")
SQUARE = ((0, 0), (1, 1), (2, 2), (5, 5), (20, 20), (3, 4, 4), (0, 3, 3), (2, 0, 0), (2, 2, 3, 3))
OTHERS = ((0, 3), (3, 0), (5, 3), (3, 5), (1, 4), (4, 1), (30, 12), (2, 5, 3), (2, 0, 3))
KINDS = ("random", "nan", "infinite", "zero", "identity", "deficient", "huge", "tiny")


def symmetric(x):
    return (x + jnp.conj(jnp.swapaxes(x, -1, -2))) / 2


def factors(x):
    """Householder vectors and factors, computed from any matrix."""
    a, taus = linalg.geqrf(x)
    return a, taus


# Functions of a matrix, each with whether the matrix must be square.
ROUTINES = {
    "potrf": (lambda x: linalg.cholesky(x @ jnp.conj(jnp.swapaxes(x, -1, -2)) + jnp.eye(x.shape[-1], dtype=x.dtype), symmetrize_input=False), True),
    "getrf": (lambda x: linalg.lu(x), False),
    "geqrf": (lambda x: linalg.geqrf(x), False),
    "geqp3": (lambda x: linalg.qr(x, pivoting=True, full_matrices=False), False),
    "orgqr": (lambda x: linalg.qr(x, full_matrices=True), False),
    "ormqr": (lambda x: linalg.ormqr(*factors(x), jnp.ones((*x.shape[:-1], 2), x.dtype)), False),
    "ormqr transposed": (lambda x: linalg.ormqr(*factors(x), jnp.ones((*x.shape[:-1], 2), x.dtype), transpose=True), False),
    "ormqr right": (lambda x: linalg.ormqr(*factors(x), jnp.ones((*x.shape[:-2], 2, x.shape[-2]), x.dtype), left=False), False),
    "gehrd": (lambda x: linalg.hessenberg(x), True),
    "sytrd": (lambda x: linalg.tridiagonal(symmetric(x), lower=True), True),
    "sytrd upper": (lambda x: linalg.tridiagonal(symmetric(x), lower=False), True),
    "syevd": (lambda x: linalg.eigh(symmetric(x), symmetrize_input=False), True),
    "geev": (lambda x: linalg.eig(x, compute_left_eigenvectors=False), True),
    "gees": (lambda x: linalg.schur(x), True),
    "gesdd": (lambda x: linalg.svd(x, full_matrices=False), False),
    "gesdd full": (lambda x: linalg.svd(x, full_matrices=True), False),
    "gesdd values": (lambda x: linalg.svd(x, compute_uv=False), False),
    "trsm": (lambda x: linalg.triangular_solve(x + 4 * jnp.eye(x.shape[-1], dtype=x.dtype), jnp.ones_like(x), left_side=True, lower=True), True),
}  # fmt: skip


def matrix(shape, dtype, kind):
    draw = np.random.RandomState(zlib.crc32(f"{shape}{dtype}{kind}".encode()))
    x = draw.randn(*shape)
    if dtype.startswith("complex"):
        x = x + 1j * draw.randn(*shape)
    if kind == "zero":
        x = x * 0
    if kind == "identity":
        x = np.broadcast_to(np.eye(*shape[-2:]), shape)
    if kind == "deficient" and x.size:
        x = np.ones_like(x) * x[..., :1, :]
    if kind in ("huge", "tiny"):
        # Elements so large or small that their squares overflow or underflow.
        single = dtype in ("float32", "complex64")
        x = x * (10.0 ** ((25 if single else 200) * (1 if kind == "huge" else -1)))
    x = np.array(x, dtype)
    if kind in ("nan", "infinite") and x.size:
        x[..., -1, 0] = np.nan if kind == "nan" else np.inf
    return x


def programs(_):
    found = {}
    for routine, (_, square) in ROUTINES.items():
        shapes = SQUARE if square else SQUARE + OTHERS
        for shape, dtype, kind in itertools.product(shapes, TYPES, KINDS):
            if kind != "random" and (0 in shape or shape[-2:] == (20, 20)):
                continue
            # LAPACK's own iteration (`bdsqr`) does not terminate for these.
            if kind == "infinite" and routine.startswith("gesdd"):
                continue
            name = f"{routine}/{dtype}/{'x'.join(map(str, shape))}/{kind}"
            found[name] = (routine, shape, dtype, kind)
    return found


def residual(routine, x, found):
    """The error of vectors that differ from LAPACK's; None if they decompose the matrix, too."""
    group = {"syevd": judged.hermitian, "geev": judged.eigen}.get(routine, judged.singular)
    x = np.asarray(symmetric(x)) if routine == "syevd" else x
    return group([x], found, found, {})


def judge(name, parts, arguments):
    routine, shape, dtype, kind = parts
    x = matrix(shape, dtype, kind)
    try:
        lowered = jax.jit(ROUTINES[routine][0]).lower(x)
        text = hlo_text(lowered)
        expected = arrays(lowered.compile()(x))
    except Exception as error:
        return "not xla's", " ".join(str(error).split())[:200]
    stem = arguments.folder / safe(name)
    program, given, out = (stem.with_name(stem.name + end) for end in (".hlo", ".npz", ".out.npz"))
    program.write_text(text)
    np.savez(given, in0=stored(x))
    failure = tegula(arguments, "run", program, "--inputs", given, "--outputs", out)
    if failure:
        return failure
    with np.load(out) as npz:
        found = [npz[f"out{i}"] for i in range(len(expected))]
    out.unlink()
    wrong = [judged.apart(e, f, UNITS) for e, f in zip(expected, found)]
    number, about = next(((i, w) for i, w in enumerate(wrong) if w), (0, None))
    if about and kind in ("zero", "identity", "deficient") and routine in ("syevd", "geev", "gesdd", "gesdd full"):
        about = residual(routine, x, found)
    if about:
        return "differs", f"{routine} {kind}: result {number}: {about}"
    program.unlink()
    given.unlink()
    return "agrees", ""
