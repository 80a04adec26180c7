"""Functions of jax.numpy, jax.nn, jax.lax, jax.random, jax.image and jax.scipy.signal that `operations`
does not have, of f32 alone: what is made of several operations, and what users find slow one by one."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax, random

NEEDS = ()

# Of 256 rows of 512 numbers.
OF_AN_ARRAY = {
    "logsumexp_of_rows": lambda x: jsp.special.logsumexp(x, 1),
    "attention": lambda x: jax.nn.dot_product_attention(*[x.reshape(1, 256, 8, 64)] * 3),
    "causal_attention": lambda x: jax.nn.dot_product_attention(*[x.reshape(1, 256, 8, 64)] * 3, is_causal=True),
    "covariance": jnp.cov,
    "nanmedian": lambda x: jnp.nanmedian(x, 1),
    "quantiles": lambda x: jnp.quantile(x, jnp.array([0.1, 0.5, 0.9]), axis=1),
    "gradient": lambda x: jnp.gradient(x)[0],
    "cross": lambda x: jnp.cross(x[:, :3], x[:, 3:6]),
    "outer": lambda x: jnp.outer(x[0], x[1]),
    "row_products": lambda x: jnp.einsum("ij,ij->i", x, x),
    "chain": lambda x: jnp.einsum("ij,jk,kl->il", x[:64, :64], x[64:128, :64], x[128:192, :64]),
    "upper_triangle": lambda x: x[jnp.triu_indices(200)],
    "nonzero": lambda x: jnp.nonzero(x > 1, size=5000),
    "digitize": lambda x: jnp.digitize(x, jnp.linspace(-2, 2, 20)),
    "isin": lambda x: jnp.isin(jnp.round(x[:50]), jnp.arange(5.0)),
    "lexsort": lambda x: jnp.lexsort((x[0], jnp.round(x[1]))),
    "partition": lambda x: jnp.partition(x, 10, 1),
    "polyfit": lambda x: jnp.polyfit(x[0], x[1], 3),
    "roots": lambda x: jnp.roots(x[0, :10], strip_zeros=False),
    "unpackbits": lambda x: jnp.unpackbits((x * 10).astype(jnp.uint8), axis=1),
    "unwrap": lambda x: jnp.unwrap(x, axis=1),
    "nextafter": lambda x: jnp.nextafter(x, 1.0),
    "correlate": lambda x: jnp.correlate(x[0], x[1][:50]),
    "select": lambda x: jnp.select([x > 1, x > 0], [x, x * 2], x * 3),
    "piecewise": lambda x: jnp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v]),
    "take_along_axis": lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
    "insert": lambda x: jnp.insert(x, 3, 0.0, axis=1),
    "resize": lambda x: jnp.resize(x, (300, 600)),
    "moveaxis": lambda x: jnp.moveaxis(x.reshape(16, 16, 512), 2, 0) + 0,
    "transpose_of_three": lambda x: x.reshape(16, 16, 512).transpose(2, 1, 0) + 0,
    "approx_max_k": lambda x: lax.approx_max_k(x, 10),
    "sort_of_two": lambda x: lax.sort((x, -x), dimension=1, num_keys=2),
    "conv1d": lambda x: lax.conv_general_dilated(
        x.reshape(8, 32, 512), x.ravel()[: 64 * 32 * 5].reshape(64, 32, 5), (1,), "SAME"
    ),
    "conv_transpose": lambda x: lax.conv_transpose(
        x.reshape(2, 64, 64, 16)[:1], x.ravel()[: 9 * 16 * 8].reshape(3, 3, 16, 8), (2, 2), "SAME"
    ),
    "max_pool_gradient": jax.grad(
        lambda x: lax.reduce_window(
            x.reshape(2, 64, 64, 16), -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
        ).sum()
    ),
    "linear_recurrence": lambda x: lax.associative_scan(
        lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, x), axis=0
    )[1],
    "recurrent_network": lambda x: lax.scan(
        lambda h, v: (jnp.tanh(h @ x[:64, :64] + v[:64]), h.sum()), jnp.zeros(64, x.dtype), x
    ),
    "rows_in_a_loop": lambda x: lax.fori_loop(0, 200, lambda i, c: c.at[i].set(c[i - 1] * 0.5 + 1), x),
    "segment_max": lambda x: jax.ops.segment_max(x, jnp.arange(256) % 10, 10),
    "small_cholesky": jax.vmap(lambda v: jnp.linalg.cholesky(jnp.outer(v[:4], v[:4]) + jnp.eye(4))),
    "hessian": lambda x: jax.hessian(lambda v: jnp.sin(v).sum() ** 2)(x[0, :64]),
    "log_softmax_gradient": jax.grad(lambda x: -jax.nn.log_softmax(x)[:, 0].sum()),
    "layer_norm_gradient": jax.grad(
        lambda x: (((x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-5)) ** 3).sum()
    ),
    "fftconvolve": lambda x: jsp.signal.fftconvolve(x[:40].ravel(), x.ravel()[:100]),
    "stft": lambda x: jsp.signal.stft(x[:20].ravel())[2],
    "welch": lambda x: jsp.signal.welch(x[:40].ravel())[1],
}
# Of positive numbers.
OF_POSITIVE = {
    name: getattr(jsp.special, name)
    for name in "gammaln digamma erf erfc ndtr log_ndtr i0 i0e i1 i1e entr spence expi exp1 factorial gamma".split()
}
OF_A_KEY = {
    "uniform": lambda k: random.uniform(k, (100_000,)),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (100_000,)),
    "gamma": lambda k: random.gamma(k, 2.0, (5000,)),
    "beta": lambda k: random.beta(k, 2.0, 3.0, (5000,)),
    "categorical": lambda k: random.categorical(k, jnp.zeros((1000, 50))),
    "choice": lambda k: random.choice(k, 1000, (500,), replace=False),
    "permutation": lambda k: random.permutation(k, 20_000),
    "poisson": lambda k: random.poisson(k, 3.0, (5000,)),
    "binomial": lambda k: random.binomial(k, 10, 0.3, (2000,)),
    "truncated_normal": lambda k: random.truncated_normal(k, -1, 1, (50_000,)),
    "gumbel": lambda k: random.gumbel(k, (50_000,)),
    "randint": lambda k: random.randint(k, (100_000,), 0, 1000),
    "multivariate_normal": lambda k: random.multivariate_normal(k, jnp.zeros(10), jnp.eye(10), (1000,)),
    "dirichlet": lambda k: random.dirichlet(k, jnp.ones(10), (500,)),
    "orthogonal": lambda k: random.orthogonal(k, 40),
    "split": lambda k: random.key_data(random.split(k, 10_000)),
}
OF_SMALL_MATRICES = {
    "inverse": jnp.linalg.inv,
    "determinant": jnp.linalg.det,
    "solve": lambda a: jnp.linalg.solve(a, a[..., :1]),
    "eigenvalues": lambda a: jnp.linalg.eigvalsh(a @ a.mT),
    "svd": jnp.linalg.svd,
    "qr": jnp.linalg.qr,
    "cholesky": lambda a: jnp.linalg.cholesky(a @ a.mT + 3 * jnp.eye(a.shape[-1])),
    "pseudo_inverse": jnp.linalg.pinv,
    "matrix_power": lambda a: jnp.linalg.matrix_power(a / 10, 7),
}


def programs():
    draw = np.random.RandomState(0)
    numbers = draw.randn(256, 512).astype("float32")
    made = {name: (function, numbers) for name, function in OF_AN_ARRAY.items()}
    positive = np.abs(numbers) + np.float32(0.1)
    made |= {f"{name}_of_positive": (function, positive) for name, function in OF_POSITIVE.items()}
    for name, function in OF_A_KEY.items():
        made[f"random_{name}"] = (lambda seed, f=function: f(random.key(seed)), np.uint32(3))
    for count, size in ((500, 3), (100, 12)):
        matrices = draw.randn(count, size, size).astype("float32")
        for name, function in OF_SMALL_MATRICES.items():
            made[f"{name}_of_{count}_{size}x{size}"] = (function, matrices)
    image = draw.rand(64, 64, 3).astype("float32")
    made["resize_lanczos"] = (lambda a: jax.image.resize(a, (100, 100, 3), "lanczos3"), image)
    made["rotate"] = (jnp.rot90, image)
    made["convolve2d"] = (lambda a: jsp.signal.convolve2d(a[:, :, 0], a[:9, :9, 0], mode="same"), image)
    return made
