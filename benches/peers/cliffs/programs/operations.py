"""Functions of jax.numpy, jax.nn, jax.lax, jax.random and jax.scipy one by one, for each element type:
what no model is slow by, but many programs call."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax

NEEDS = ()

# Narrow floats are converted in the program, because .npz files have no name for bfloat16.
NARROW = ("bfloat16", "float16")

OF_ALL = {
    "multiply_add": lambda x: x * x + x,
    "sum_rows": lambda x: x.sum(0),
    "sum_columns": lambda x: x.sum(1),
    "sum": lambda x: x.sum(),
    "prod": lambda x: x.prod(1),
    "cumsum_rows": lambda x: jnp.cumsum(x, 0),
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "transpose": lambda x: x.T + 0,
    "reverse": lambda x: x[::-1, ::-1],
    "take": lambda x: jnp.take(x, jnp.arange(0, x.shape[0], 3), axis=0),
    "pad": lambda x: jnp.pad(x, ((3, 5), (7, 9))),
    "concatenate": lambda x: jnp.concatenate([x, x], 1),
    "roll": lambda x: jnp.roll(x, (3, 5), (0, 1)),
    "where": lambda x: jnp.where(x == 0, x, x + 1),
    "tril": jnp.tril,
    "diff": lambda x: jnp.diff(x, axis=1),
    "stack_last": lambda x: jnp.stack([x, x + 1], -1),
    "repeat": lambda x: jnp.repeat(x, 3, axis=1),
    "tile": lambda x: jnp.tile(x, (2, 3)),
    "kron": lambda x: jnp.kron(x[:16, :16], x[:16, :16]),
    "matmul": lambda x: x[:128, :128] @ x[:128, :128],
    "matvec": lambda x: x @ x[0],
    "segment_sum": lambda x: jax.ops.segment_sum(x, jnp.arange(x.shape[0]) % 17, 17),
    "scatter_set": lambda x: x.ravel().at[(jnp.arange(50_000) * 7919) % x.size].set(x.ravel()[:50_000]),
    "scatter_add": lambda x: x.ravel().at[(jnp.arange(50_000) * 7919) % x.size].add(x.ravel()[:50_000]),
    "gather": lambda x: x.ravel()[(jnp.arange(50_000) * 7919) % x.size],
}
OF_ORDERED = {
    "sort": lambda x: jnp.sort(x.ravel()),
    "argsort": lambda x: jnp.argsort(x.ravel()),
    "sort_rows": lambda x: jnp.sort(x, 0),
    "sort_columns": lambda x: jnp.sort(x, 1),
    "max": lambda x: x.max(0),
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(0),
    "top_k": lambda x: lax.top_k(x, 10),
    "cummax": lambda x: lax.cummax(x, 1),
    "clip": lambda x: jnp.clip(x, 1, 2),
    "median": lambda x: jnp.median(x, axis=1),
    "floor_divide": lambda x: x // (x * x + 1),
    "modulo": lambda x: x % (x * x + 1),
    "max_pool": lambda x: lax.reduce_window(x, x.dtype.type(0), lax.max, (3, 3), (2, 2), "SAME"),
    "sum_pool": lambda x: lax.reduce_window(x, x.dtype.type(0), lax.add, (3, 3), (1, 1), "SAME"),
    "searchsorted": lambda x: jnp.searchsorted(jnp.sort(x.ravel()[:1000]), x.ravel()),
    "unique": lambda x: jnp.unique(x.ravel()[:5000], size=200),
}
OF_FLOATS = {
    name: getattr(jnp, name)
    for name in (
        "exp exp2 expm1 sin cos tan tanh sinh cosh arctan arcsinh cbrt floor rint sign reciprocal"
    ).split()
} | {
    "log": lambda x: jnp.log(jnp.abs(x)),
    "log1p": lambda x: jnp.log1p(jnp.abs(x)),
    "arccosh": lambda x: jnp.arccosh(jnp.abs(x) + 1),
    "arctanh": lambda x: jnp.arctanh(jnp.clip(x, -0.9, 0.9)),
    "arcsin": lambda x: jnp.arcsin(jnp.clip(x, -0.9, 0.9)),
    "arctan2": lambda x: jnp.arctan2(x, x[:, ::-1]),
    "power": lambda x: jnp.abs(x) ** x,
    "hypot": lambda x: jnp.hypot(x, x[:, ::-1]),
    "logaddexp": lambda x: jnp.logaddexp(x, x[:, ::-1]),
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "mish": jax.nn.mish,
    "variance": lambda x: x.var(0),
    "standard_deviation": lambda x: x.std(1),
    "percentile": lambda x: jnp.percentile(x, 30.0, axis=1),
    "histogram": lambda x: jnp.histogram(x, bins=50)[0],
    "interp": lambda x: jnp.interp(x, jnp.arange(100.0).astype(x.dtype), jnp.arange(100.0).astype(x.dtype)),
    "polyval": lambda x: jnp.polyval(jnp.arange(8.0).astype(x.dtype), x),
    "convolve": lambda x: jnp.convolve(x.ravel()[:20_000], x.ravel()[:65]),
    "resize_bilinear": lambda x: jax.image.resize(x, (300, 700), "bilinear"),
    "resize_cubic": lambda x: jax.image.resize(x, (100, 200), "cubic"),
    "associative_scan": lambda x: lax.associative_scan(lambda a, b: a * b + a, x, axis=1),
    "scan": lambda x: lax.scan(lambda carry, row: (carry * 0.9 + row, carry), x[0], x),
    "normal": lambda x: jax.random.normal(jax.random.key(0), (100_000,), x.dtype) + x[0, 0],
}
OF_INTEGERS = {
    "bits": lambda x: (x & 3) | (x ^ 5),
    "shift": lambda x: (x << 2) >> 1,
    "population_count": lax.population_count,
    "bincount": lambda x: jnp.bincount(x.ravel().astype("int32") % 64, length=64),
    "one_hot": lambda x: jax.nn.one_hot(x.ravel()[:2000], 64),
}
OF_COMPLEX = {
    name: getattr(jnp, name) for name in "abs angle exp log sqrt sin tanh square".split()
} | {
    "divide": lambda x: x / (x + 3),
    "power": lambda x: x ** (x * 0.1),
    "polar": lambda x: jnp.abs(x) * jnp.exp(1j * jnp.angle(x)),
}
# Of a square matrix.
OF_MATRICES = {
    "eigh": lambda a: jnp.linalg.eigh(a + a.conj().T),
    "eigvalsh": lambda a: jnp.linalg.eigvalsh(a + a.conj().T),
    "svd": jnp.linalg.svd,
    "singular_values": lambda a: jnp.linalg.svd(a, compute_uv=False),
    "qr": jnp.linalg.qr,
    "pivoted_qr": lambda a: jsp.linalg.qr(a, pivoting=True),
    "eig": jnp.linalg.eig,
    "schur": jsp.linalg.schur,
    "hessenberg": jsp.linalg.hessenberg,
    "cholesky": lambda a: jnp.linalg.cholesky(a @ a.conj().T + a.shape[0] * jnp.eye(a.shape[0], dtype=a.dtype)),
    "solve": lambda a: jnp.linalg.solve(a, a),
    "inverse": jnp.linalg.inv,
    "determinant": jnp.linalg.slogdet,
    "pseudo_inverse": jnp.linalg.pinv,
    "least_squares": lambda a: jnp.linalg.lstsq(a, a[:, :3])[0],
    "expm": lambda a: jsp.linalg.expm(a / a.shape[0]),
}
FOURIER = {
    "fft_prime": lambda x: jnp.fft.fft(x[:64, :97]),
    "fft": lambda x: jnp.fft.fft(x[:64, :256]),
    "fft2": lambda x: jnp.fft.fft2(x[:64, :64]),
}


def inputs(name, shape):
    """An array of an element type, drawn by a fixed seed."""
    random = np.random.RandomState(0)
    if name == "bool":
        return random.randint(0, 2, shape).astype(bool)
    if name[0] in "iu":
        return random.randint(0 if name[0] == "u" else -50, 100, shape).astype(name)
    x = random.randn(*shape)
    if name.startswith("complex"):
        x = x + 1j * random.randn(*shape)
    return x.astype("float32" if name in NARROW else name)


def converted(function, name):
    return (lambda x: function(x.astype(name))) if name in NARROW else function


def programs():
    wide = jax.config.jax_enable_x64
    floats = ("float64",) if wide else ("float32", *NARROW)
    integers = ("int64",) if wide else ("int8", "uint8", "int16", "int32", "uint32")
    complexes = ("complex128",) if wide else ("complex64",)
    made = {}

    def add(names, functions, shape=(256, 512)):
        for name in names:
            for title, function in functions.items():
                made[f"{title}_of_{name}"] = (converted(function, name), inputs(name, shape))

    add(floats + integers + complexes, OF_ALL)
    add(floats + integers, OF_ORDERED)
    add(floats, OF_FLOATS)
    add(integers, OF_INTEGERS)
    add(complexes, OF_COMPLEX)
    # LAPACK's routines know these types.
    exact = tuple(name for name in floats if name not in NARROW) + complexes
    add(exact, FOURIER)
    for size in (16, 100):
        add(exact, {f"{title}_{size}": function for title, function in OF_MATRICES.items()}, (size, size))
    return made
