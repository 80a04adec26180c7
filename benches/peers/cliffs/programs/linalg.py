"""jax.numpy.linalg and jax.scipy.linalg on matrices of 24 and 64 rows."""

import jax.numpy as jnp
import jax.scipy.linalg as linalg
import numpy as np

NEEDS = ()


def square(n):
    return np.random.RandomState(n).randn(n, n).astype(np.float32)


def programs():
    found = {}
    for n in (24, 64):
        a = square(n)
        spd = a @ a.T + n * np.eye(n, dtype=np.float32)
        b = square(n)[:, :3]
        found[f"cholesky_{n}"] = (jnp.linalg.cholesky, spd)
        found[f"solve_{n}"] = (jnp.linalg.solve, a, b)
        found[f"cho_solve_{n}"] = (lambda s, b: linalg.cho_solve(linalg.cho_factor(s), b), spd, b)
        found[f"det_{n}"] = (jnp.linalg.slogdet, a)
        found[f"inv_{n}"] = (jnp.linalg.inv, a)
        found[f"qr_{n}"] = (jnp.linalg.qr, a)
        found[f"eigvalsh_{n}"] = (jnp.linalg.eigvalsh, spd)
        found[f"svdvals_{n}"] = (lambda x: jnp.linalg.svd(x, compute_uv=False), a)
        found[f"expm_{n}"] = (linalg.expm, a / n)
        found[f"lstsq_{n}"] = (lambda a, b: jnp.linalg.lstsq(a, b)[0], a, b)
        found[f"power_{n}"] = (lambda x: jnp.linalg.matrix_power(x, 5), a / n)
    return found
