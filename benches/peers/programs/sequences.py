"""Positions, filters, transport, sequences, sampling."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inputs import numbers as n


def rotated(q, k):
    """Rotary embeddings, with their angles, and the scores of grouped queries."""
    length, half = q.shape[1], q.shape[3] // 2
    angles = jnp.arange(length)[:, None] / 10000 ** (jnp.arange(half) / half)
    c, s = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]

    def turn(x):
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * c - b * s, a * s + b * c], -1)

    q = turn(q).reshape(*q.shape[:2], k.shape[2], -1, q.shape[3])
    return jnp.einsum("bqhgd,bkhd->bhgqk", q, turn(k))


def adam(weights, gradients, mean, square, step):
    mean = 0.9 * mean + 0.1 * gradients
    square = 0.999 * square + 0.001 * gradients**2
    change = mean / (1 - 0.9**step) / (jnp.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return weights - 1e-3 * (change + 0.01 * weights), mean, square


def warped(image, flow):
    """An image sampled at displaced positions, with interpolation."""
    h, w = image.shape[:2]
    y = jnp.clip(jnp.arange(h)[:, None] + flow[..., 0], 0, h - 1.001)
    x = jnp.clip(jnp.arange(w)[None] + flow[..., 1], 0, w - 1.001)
    top, left = jnp.floor(y).astype(int), jnp.floor(x).astype(int)
    dy, dx = (y - top)[..., None], (x - left)[..., None]
    upper = image[top, left] * (1 - dx) + image[top, left + 1] * dx
    lower = image[top + 1, left] * (1 - dx) + image[top + 1, left + 1] * dx
    return upper * (1 - dy) + lower * dy


def filtered(values, moves, seen):
    """A Kalman filter of four states and two measurements for each track."""

    def step(state, z):
        x, p = state
        x = x @ moves.T
        p = moves @ p @ moves.T + 0.01 * jnp.eye(4)
        spread = seen @ p @ seen.T + 0.1 * jnp.eye(2)
        a, b, c, d = spread[..., 0, 0], spread[..., 0, 1], spread[..., 1, 0], spread[..., 1, 1]
        inverse = jnp.stack([d, -b, -c, a], -1).reshape(-1, 2, 2) / (a * d - b * c)[:, None, None]
        gain = p @ seen.T @ inverse
        x = x + jnp.einsum("tij,tj->ti", gain, z - x @ seen.T)
        return (x, p - gain @ seen @ p), x

    tracks = values.shape[1]
    start = (jnp.zeros((tracks, 4)), jnp.broadcast_to(jnp.eye(4), (tracks, 4, 4)))
    return lax.scan(step, start, values)[1]


def forward_probability(emitted, moves):
    """The log probability of a hidden Markov model (forward algorithm)."""

    def step(score, e):
        return jax.nn.logsumexp(score[:, :, None] + moves, axis=1) + e, None

    score, _ = lax.scan(step, emitted[0], emitted[1:])
    return jax.nn.logsumexp(score, axis=1)


def transported(costs):
    """Sinkhorn iterations in the log domain."""
    u = v = jnp.zeros(costs.shape[0])

    def step(_, state):
        u, v = state
        u = -jax.nn.logsumexp(v[None] - costs, axis=1)
        return u, -jax.nn.logsumexp(u[:, None] - costs, axis=0)

    u, v = lax.fori_loop(0, 10, step, (u, v))
    return jnp.exp(u[:, None] + v[None] - costs)


def means(points, centres):
    def step(_, centres):
        far = ((points[:, None] - centres) ** 2).sum(-1)
        nearest = far.argmin(1)
        one = jax.nn.one_hot(nearest, centres.shape[0])
        return one.T @ points / jnp.maximum(one.sum(0), 1)[:, None]

    return lax.fori_loop(0, 5, step, centres)


def walk(x):
    """Metropolis steps of many chains."""

    def step(state, key):
        x, level = state
        move, accept = jax.random.split(key)
        new = x + 0.5 * jax.random.normal(move, x.shape)
        new_level = -0.5 * (new**2).sum(-1) + jnp.cos(3 * new[:, 0])
        taken = jnp.log(jax.random.uniform(accept, level.shape)) < new_level - level
        return (jnp.where(taken[:, None], new, x), jnp.where(taken, new_level, level)), taken.mean()

    keys = jax.random.split(jax.random.key(0), 20)
    return lax.scan(step, (x, -0.5 * (x**2).sum(-1) + jnp.cos(3 * x[:, 0])), keys)


def sparse_product(values, columns, rows, x):
    return jax.ops.segment_sum(values * x[columns], rows, 4096, indices_are_sorted=True)


def edit_distance(a, b):
    first = jnp.arange(b.shape[0] + 1)

    def row(above, letter):
        def cell(left, inputs):
            other, up, corner = inputs
            here = jnp.minimum(jnp.minimum(left, up) + 1, corner + (other != letter))
            return here, here

        start = above[0] + 1
        _, rest = lax.scan(cell, start, (b, above[1:], above[:-1]))
        return jnp.concatenate([start[None], rest]), None

    return lax.scan(row, first, a)[0][-1]


def noise(x, y):
    """Gradient (Perlin) noise of four octaves."""
    total = 0.0
    for octave in range(4):
        u, v = x * 2**octave, y * 2**octave
        i, j = jnp.floor(u), jnp.floor(v)
        f, g = u - i, v - j

        def corner(di, dj):
            angle = jnp.sin((i + di) * 127.1 + (j + dj) * 311.7) * 43758.547
            return jnp.cos(angle) * (f - di) + jnp.sin(angle) * (g - dj)

        smooth = lambda t: t * t * t * (t * (t * 6 - 15) + 10)
        s, t = smooth(f), smooth(g)
        low = corner(0, 0) * (1 - s) + corner(1, 0) * s
        high = corner(0, 1) * (1 - s) + corner(1, 1) * s
        total = total + (low * (1 - t) + high * t) / 2**octave
    return total


def associative(a, b):
    """A linear recurrence as an associative scan of pairs."""
    combine = lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1])
    return lax.associative_scan(combine, (a, b), axis=1)[1]


def sampled(logits, uniform):
    """Top-p (nucleus) sampling of a token."""
    order = jnp.argsort(-logits, -1)
    p = jax.nn.softmax(jnp.take_along_axis(logits, order, -1), -1)
    kept = jnp.where(jnp.cumsum(p, -1) - p < 0.9, p, 0)
    total = jnp.cumsum(kept, -1)
    place = (total < uniform[:, None] * total[:, -1:]).sum(-1)
    return jnp.take_along_axis(order, place[:, None], -1)


def edges_of(image):
    pad = jnp.pad(image, 1, mode="edge")
    at = lambda i, j: pad[i : i + image.shape[0], j : j + image.shape[1]]
    x = at(0, 2) + 2 * at(1, 2) + at(2, 2) - at(0, 0) - 2 * at(1, 0) - at(2, 0)
    y = at(2, 0) + 2 * at(2, 1) + at(2, 2) - at(0, 0) - 2 * at(0, 1) - at(0, 2)
    return jnp.hypot(x, y), jnp.arctan2(y, x)


def colour_edges(image):
    """The edges of a colour image's luminance, which is a product over the three channels."""
    return edges_of(image @ jnp.array([0.3, 0.6, 0.1]))[0]


def smoothed(x):
    """A running mean as an associative scan along one long dimension."""
    combine = lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1])
    return lax.associative_scan(combine, (jnp.full_like(x, 0.9), x * 0.1))[1]


def selective_scan(x, dt, b, c, a):
    """A state-space recurrence whose decay depends on its input."""

    def step(h, now):
        x, d, b, c = now
        h = h * jnp.exp(-jnp.abs(d)[:, :, None] * jnp.abs(a)) + (d * x)[:, :, None] * b[:, None]
        return h, (h * c[:, None]).sum(-1)

    over_time = tuple(t.swapaxes(0, 1) for t in (x, dt, b, c))
    return lax.scan(step, jnp.zeros((*x.shape[::2], a.shape[1])), over_time)[1]


def group_norm(x, scale, shift):
    """Group normalisation over groups of sixteen channels; channels are the last dimension."""
    g = x.reshape(*x.shape[:2], -1, 16)
    g = g - g.mean((1, 3), keepdims=True)
    g = g * lax.rsqrt((g * g).mean((1, 3), keepdims=True) + 1e-5)
    return g.reshape(x.shape) * scale + shift


def gated(x, up, down):
    h = x @ up
    return (jax.nn.silu(h) * h) @ down


def log_gamma(x):
    return jax.scipy.special.gammaln(x + 0.5).sum(0)


def programs():
    """Functions and their inputs, by name."""
    random = np.random.RandomState(2)
    integers = lambda count, limit: random.randint(0, limit, count).astype(np.int32)
    weights = [n(1024, 1024) for _ in range(3)] + [np.abs(n(1024, 1024))]
    return {
        "adam": (adam, *weights, np.float32(7)),
        "associative_scan": (associative, np.tanh(n(16, 1024, 32)), n(16, 1024, 32)),
        "colour_edges": (colour_edges, n(300, 300, 3)),
        "edit_distance": (edit_distance, integers(100, 4), integers(120, 4)),
        "gated_bf16": (gated, *(n(*s).astype(jnp.bfloat16) for s in [(16, 512), (512, 2048), (2048, 512)])),
        "group_norm": (group_norm, n(8, 128, 512), n(512), n(512)),
        "hmm_forward": (forward_probability, n(50, 64, 32), n(32, 32)),
        "kalman": (filtered, n(50, 200, 2), n(4, 4) / 4 + np.eye(4, dtype=np.float32), n(2, 4)),
        "kmeans": (means, n(4096, 16), n(32, 16)),
        "log_gamma": (log_gamma, 4 * random.rand(400, 300).astype(np.float32)),
        "metropolis": (walk, n(1000, 8)),
        "noise": (noise, 8 * n(256, 256), 8 * n(256, 256)),
        "rope": (rotated, n(2, 256, 8, 64), n(2, 256, 2, 64)),
        "selective_scan_inside": (selective_scan, *(n(16, 128, c) for c in [64, 64, 8, 8]), n(64, 8)),
        "sinkhorn": (transported, np.abs(n(256, 256))),
        "smoothed": (smoothed, n(50000)),
        "sobel": (edges_of, n(512, 512)),
        "spmv": (sparse_product, n(65536), integers(65536, 4096), np.sort(integers(65536, 4096)), n(4096)),
        "top_p": (sampled, n(16, 8192), random.rand(16).astype(np.float32)),
        "warp": (warped, n(256, 256, 3), 3 * n(256, 256, 2)),
    }
