"""Forty more programs for run.py: everyday operations at odd sizes, and in gradients.

    python benches/peers/further_programs.py FOLDER
    python benches/peers/run.py FOLDER --threads 1 --rounds 2

needs `jax[cpu]` and `numpy`; writes what programs.py writes. They were written after those
of unseen_programs.py, to see what else is slow.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from programs import main, numbers as n


def cross_covariance(x, y):
    x, y = x - x.mean(0), y - y.mean(0)
    return x.T @ y / (x.shape[0] - 1)


def conjugate_gradients(a, b):
    """Of a symmetric matrix, forty steps."""

    def step(state, _):
        x, r, p, rr = state
        ap = a @ p
        alpha = rr / (p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        new = r @ r
        return (x, r, r + new / rr * p, new), None

    return lax.scan(step, (jnp.zeros_like(b), b, b, b @ b), None, length=40)[0][0]


def inverses(a):
    """Of many matrices of 3x3, by cofactors."""
    c = jnp.cross(a[:, [1, 2, 0]], a[:, [2, 0, 1]])
    d = (a[:, 0] * c[:, 0]).sum(-1)
    return c.transpose(0, 2, 1) / d[:, None, None]


def quaternions(p, q):
    (a, b, c, d), (e, f, g, h) = (jnp.moveaxis(x, -1, 0) for x in (p, q))
    parts = [
        a * e - b * f - c * g - d * h,
        a * f + b * e + c * h - d * g,
        a * g - b * h + c * e + d * f,
        a * h + b * g - c * f + d * e,
    ]
    return jnp.stack(parts, -1)


def mixture(x, means, scales, weights):
    """The log likelihood of a mixture of normal distributions."""
    z = (x[:, None] - means) / scales
    log = -0.5 * (z * z).sum(-1) - jnp.log(scales).sum(-1) + jax.nn.log_softmax(weights)
    return jax.nn.logsumexp(log, -1)


def routed(x, gate, up, down):
    """A mixture of experts, all of them computed, two of them counted."""
    scores, chosen = lax.top_k(x @ gate, 2)
    share = jax.nn.softmax(scores)
    weight = (jax.nn.one_hot(chosen, gate.shape[1]) * share[..., None]).sum(1)
    h = jax.nn.relu(jnp.einsum("td,edf->etf", x, up))
    return jnp.einsum("etf,efd,te->td", h, down, weight)


def resized(x):
    return jax.image.resize(x, (x.shape[0], 192, 160, x.shape[3]), "bilinear")


def median(x):
    """Of three by three neighbours."""
    h, w = x.shape
    p = jnp.pad(x, 1, mode="edge")
    near = [p[i : i + h, j : j + w] for i in range(3) for j in range(3)]
    return jnp.sort(jnp.stack(near), 0)[4]


def pooled_gradient(x):
    pool = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    return jax.grad(lambda x: (pool(x) ** 2).sum())(x)


def batch_norm_training(x, scale, shift):
    def loss(x, scale, shift):
        m, v = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (jax.nn.relu((x - m) * lax.rsqrt(v + 1e-5) * scale + shift) ** 2).sum()

    return jax.grad(loss, (0, 1, 2))(x, scale, shift)


def convolved(x, w, stride=1, padding="SAME", groups=1, dilation=1):
    names = ("N" + "DHW"[-(x.ndim - 2) :] + "C", "DHW"[-(x.ndim - 2) :] + "IO", "N" + "DHW"[-(x.ndim - 2) :] + "C")
    spatial = x.ndim - 2
    return lax.conv_general_dilated(
        x, w, (stride,) * spatial, padding, rhs_dilation=(dilation,) * spatial,
        dimension_numbers=names, feature_group_count=groups,
    )


def convolution_gradients(x, w):
    return jax.grad(lambda x, w: (jnp.tanh(convolved(x, w, 2)) ** 2).sum(), (0, 1))(x, w)


def attention_gradients(q, k, v):
    def loss(q, k, v):
        s = jnp.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        return (jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(s), v) ** 2).sum()

    return jax.grad(loss, (0, 1, 2))(q, k, v)


def softmax_gradient(x, given):
    return jax.vjp(jax.nn.softmax, x)[1](given)[0]


def gelu_gradient(x, given):
    return jax.vjp(jax.nn.gelu, x)[1](given)[0]


def swish_gradient(x):
    return jax.grad(lambda x: (jax.nn.silu(x) * jax.nn.softplus(x)).sum())(x)


def perceptron(x, y, *weights):
    """One step of training a network of three layers."""

    def loss(weights):
        h = x
        for w, b in zip(weights[::2], weights[1::2]):
            h = jnp.tanh(h @ w + b)
        return ((h - y) ** 2).mean()

    return [w - 0.1 * g for w, g in zip(weights, jax.grad(loss)(weights))]


def lstm(x, wx, wh, bias):
    def step(state, now):
        h, c = state
        i, f, g, o = jnp.split(now @ wx + h @ wh + bias, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((x.shape[1], wh.shape[0]))
    return lax.scan(step, (zeros, zeros), x)[1]


def quantised(x):
    """Rows as bytes, and their scales."""
    scale = jnp.abs(x).max(-1, keepdims=True) / 127
    return jnp.clip(jnp.round(x / scale), -127, 127).astype(jnp.int8), scale


def product_of_bytes(x, w, scale):
    q, s = quantised(x)
    y = lax.dot_general(q, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
    return y * s * scale


def searched(edges, x):
    return jnp.searchsorted(edges, x)


def interpolated(x, xp, fp):
    return jnp.interp(x, xp, fp)


def segments(x, places):
    return jax.ops.segment_sum(x, places, 512)


def running_maximum(x):
    return lax.cummax(x, axis=1)


def sorted_columns(x):
    return jnp.sort(x, 0)


def arranged(x):
    return jnp.argsort(x, -1)


def random_normal(key):
    return jax.random.normal(key, (256, 1024))


def dropped(key, x):
    return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)


def julia(z):
    def step(_, state):
        z, count = state
        z = z * z + (-0.4 + 0.6j)
        return z, count + (jnp.abs(z) < 2)

    return lax.fori_loop(0, 30, step, (z, jnp.zeros(z.shape, int)))[1]


def heat(u):
    """Ten steps in three dimensions, held at the border."""

    def step(_, u):
        c = u[1:-1, 1:-1, 1:-1]
        near = u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1]
        near = near + u[1:-1, :-2, 1:-1] + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2]
        return u.at[1:-1, 1:-1, 1:-1].set(c + 0.1 * (near - 6 * c))

    return lax.fori_loop(0, 10, step, u)


def bodies(x, v):
    """Ten steps of 256 bodies."""

    def step(state, _):
        x, v = state
        d = x[None] - x[:, None]
        r = (d * d).sum(-1) + 0.01
        v = v + 0.01 * (d * r[..., None] ** -1.5).sum(1)
        return (x + 0.01 * v, v), None

    return lax.scan(step, (x, v), None, length=10)[0]


def polynomial(x, c):
    return jnp.polyval(c, x)


def chain(scores, moves):
    """The normaliser of a conditional random field."""

    def step(alpha, s):
        return jax.nn.logsumexp(alpha[:, :, None] + moves, 1) + s, None

    return jax.nn.logsumexp(lax.scan(step, scores[0], scores[1:])[0], -1)


def contrastive(a, b):
    """Pairs of pictures and words against all others."""
    a = a / jnp.linalg.norm(a, axis=-1, keepdims=True)
    b = b / jnp.linalg.norm(b, axis=-1, keepdims=True)
    s = a @ b.T / 0.07
    return -(jnp.diag(jax.nn.log_softmax(s)) + jnp.diag(jax.nn.log_softmax(s, 0))).mean()


def patches(x, w):
    """Pictures cut into squares of 16 by 16, each embedded."""
    b, h, width, c = x.shape
    x = x.reshape(b, h // 16, 16, width // 16, 16, c).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(b, -1, 256 * c) @ w


def windows(x, w):
    """Attention in windows of 8 by 8, as rows of a picture are moved."""
    x = jnp.roll(x, (-4, -4), (1, 2))
    b, h, width, c = x.shape
    x = x.reshape(b, h // 8, 8, width // 8, 8, c).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 64, c)
    q, k, v = jnp.split(x @ w, 3, -1)
    s = jax.nn.softmax(q @ k.transpose(0, 2, 1) / np.sqrt(c))
    return s @ v


def spectrum(x):
    """Power of windows that overlap, of real numbers."""
    at = jnp.arange(0, x.shape[0] - 512 + 1, 128)[:, None] + jnp.arange(512)
    f = jnp.fft.rfft(x[at] * jnp.hanning(512))
    return jnp.log(jnp.abs(f) ** 2 + 1e-6)


def further_programs():
    """Functions and their inputs, by name."""
    random = np.random.RandomState(3)
    integers = lambda shape, limit: random.randint(0, limit, shape).astype(np.int32)
    key = np.array([1, 2], np.uint32)
    a = n(300, 300)
    half = lambda *shape: n(*shape).astype(jnp.bfloat16)
    return {
        "arranged": (arranged, n(64, 1000)),
        "attention_gradients": (attention_gradients, *(n(2, 4, 96, 48) + i for i in range(3))),
        "batch_norm_training": (batch_norm_training, n(8, 28, 28, 96), n(96), n(96)),
        "bodies": (bodies, n(256, 3), n(256, 3)),
        "chain": (chain, n(60, 16, 24), n(24, 24)),
        "conjugate_gradients": (conjugate_gradients, a @ a.T + 300 * np.eye(300, dtype=np.float32), n(300)),
        "contrastive": (contrastive, n(200, 384), n(200, 384)),
        "conv3d": (convolved, n(2, 12, 20, 20, 16), n(3, 3, 3, 16, 24)),
        "conv_7x7_rgb": (lambda x, w: convolved(x, w, 2), n(2, 112, 112, 3), n(7, 7, 3, 48)),
        "conv_bf16": (convolved, half(4, 28, 28, 72), half(3, 3, 72, 80)),
        "conv_depthwise_5x5": (lambda x, w: convolved(x, w, 2, groups=96), n(4, 30, 30, 96), n(5, 5, 1, 96)),
        "conv_gradients": (convolution_gradients, n(4, 30, 30, 24), n(3, 3, 24, 40)),
        "cross_covariance": (cross_covariance, n(2000, 60), n(2000, 90)),
        "dropped": (dropped, key, n(300, 1000)),
        "gelu_gradient": (gelu_gradient, n(300, 1500), n(300, 1500)),
        "heat": (heat, n(50, 50, 50)),
        "interpolated": (interpolated, 10 * random.rand(20000).astype(np.float32), np.arange(11, dtype=np.float32), n(11)),
        "inverses": (inverses, n(5000, 3, 3)),
        "julia": (julia, (n(200, 300) + 1j * n(300, 200).T).astype(np.complex64)),
        "lstm": (lstm, n(30, 12, 40), n(40, 4 * 72), n(72, 4 * 72), n(4 * 72)),
        "median": (median, n(200, 300)),
        "mixture": (mixture, n(3000, 6), n(20, 6), np.abs(n(20, 6)) + 0.1, n(20)),
        "patches": (patches, n(4, 160, 160, 3), n(768, 192)),
        "perceptron": (perceptron, n(64, 100), n(64, 10), n(100, 200) / 10, n(200), n(200, 150) / 10, n(150), n(150, 10) / 10, n(10)),
        "polynomial": (polynomial, n(300, 700), n(12)),
        "pooled_gradient": (pooled_gradient, n(4, 40, 40, 32)),
        "product_300": (jnp.matmul, n(300, 300), n(300, 300)),
        "product_of_bytes": (product_of_bytes, n(50, 600), random.randint(-127, 128, (600, 500)).astype(np.int8), np.abs(n(500))),
        "products_of_rows": (jnp.matmul, n(12, 40, 64), n(12, 64, 100)),
        "quaternions": (quaternions, n(20000, 4), n(20000, 4)),
        "random_normal": (random_normal, key),
        "resized": (resized, n(4, 120, 100, 3)),
        "routed": (routed, n(96, 128), n(128, 8), n(8, 128, 256), n(8, 256, 128)),
        "running_maximum": (running_maximum, n(100, 3000)),
        "searched": (searched, np.sort(n(1000)), n(20000)),
        "segments": (segments, n(5000, 24), integers(5000, 512)),
        "softmax_gradient": (softmax_gradient, n(400, 700), n(400, 700)),
        "sorted_columns": (sorted_columns, n(500, 60)),
        "spectrum": (spectrum, n(20000)),
        "swish_gradient": (swish_gradient, n(300, 1000)),
        "windows": (windows, n(2, 48, 48, 64), n(64, 192)),
    }


if __name__ == "__main__":
    main(__doc__, further_programs())
