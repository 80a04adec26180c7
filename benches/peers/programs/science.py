"""Graphs, recurrences, simulations, signals."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inputs import numbers as n


def batch_norm_gradients(x, scale, shift):
    def loss(x, scale, shift):
        mean, spread = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
        y = (x - mean) * lax.rsqrt(spread + 1e-5) * scale[:, None, None] + shift[:, None, None]
        return (jax.nn.relu(y) ** 2).sum()

    return jax.grad(loss, (0, 1, 2))(x, scale, shift)


def running(x):
    return jnp.cumsum(x, 0), jnp.cumprod(jnp.tanh(x) + 1, 2), lax.cummax(x, axis=1)


def attention_of_one(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), v)


def time_warping(a, b):
    costs = jnp.abs(a[:, None] - b[None, :])

    def row(above, cost):
        def cell(left, inputs):
            c, up, corner = inputs
            here = c + jnp.minimum(left, jnp.minimum(up, corner))
            return here, here

        first = cost[0] + above[0]
        _, rest = lax.scan(cell, first, (cost[1:], above[1:], above[:-1]))
        return jnp.concatenate([first[None], rest]), None

    return lax.scan(row, jnp.cumsum(costs[0]), costs[1:])[0][-1]


def low_pass(x):
    f = jnp.fft.rfft(x)
    return jnp.fft.irfft(jnp.where(jnp.arange(f.shape[0]) < 1000, f, 0), x.shape[0])


def shortest_paths(d):
    step = lambda k, d: jnp.minimum(d, d[:, k, None] + d[None, k, :])
    return lax.fori_loop(0, d.shape[0], step, jnp.abs(d))


def graph_attention(x, source, target):
    scores = (x[source] * x[target]).sum(-1) / 8
    most = jax.ops.segment_max(scores, target, x.shape[0])
    weights = jnp.exp(scores - most[target])
    total = jax.ops.segment_sum(weights, target, x.shape[0])
    mixed = (weights / total[target])[:, None] * x[source]
    return jax.ops.segment_sum(mixed, target, x.shape[0])


def graph_convolution(x, source, target, w):
    sums = jax.ops.segment_sum((x @ w)[source], target, x.shape[0])
    counts = jax.ops.segment_sum(jnp.ones(source.shape), target, x.shape[0])
    return jax.nn.relu(sums / jnp.maximum(counts, 1)[:, None])


def histogram(keys, values):
    sums = jnp.zeros(64).at[keys].add(values)
    return sums, jnp.bincount(keys, length=64)


def magnet(x):
    spins = jnp.where(x > 0, 1.0, -1.0)
    colour = jnp.indices(x.shape).sum(0)

    def sweep(s, i):
        near = jnp.roll(s, 1, 0) + jnp.roll(s, -1, 0) + jnp.roll(s, 1, 1) + jnp.roll(s, -1, 1)
        chance = jnp.sin(x * 1e3 * (i + 1)) * 0.5 + 0.5
        turns = ((colour + i) % 2 == 0) & (chance < jnp.exp(-0.8 * s * near))
        return jnp.where(turns, -s, s), None

    return lax.scan(sweep, spins, jnp.arange(10))[0]


def lattice_gas(f):
    ways = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
    weights = jnp.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)[:, None, None]
    x, y = (jnp.array(c, jnp.float32) for c in zip(*ways))

    def step(f, _):
        f = jnp.stack([jnp.roll(f[i], way, (0, 1)) for i, way in enumerate(ways)])
        density = f.sum(0)
        u, v = jnp.tensordot(x, f, 1) / density, jnp.tensordot(y, f, 1) / density
        along = 3 * (x[:, None, None] * u + y[:, None, None] * v)
        rest = weights * density * (1 + along + along**2 / 2 - 1.5 * (u * u + v * v))
        return f + 0.6 * (rest - f), None

    return lax.scan(step, jnp.abs(f) + 1, None, length=10)[0]


def linear_recurrence(a, b):
    join = lambda left, right: (left[0] * right[0], right[0] * left[1] + right[1])
    return lax.associative_scan(join, (jax.nn.sigmoid(a), b), axis=1)[1]


def page_rank(a):
    links = jnp.where(a > 1, 1.0, 0.0)
    links = links / jnp.maximum(links.sum(0), 1)
    size = a.shape[0]
    step = lambda _, v: 0.85 * (links @ v) + 0.15 / size
    return lax.fori_loop(0, 30, step, jnp.ones(size) / size)


def pendulums(x):
    def slope(s):
        swing = -jnp.sin(s[:, 0]) * 9.8 - 0.1 * s[:, 1]
        return jnp.stack([s[:, 1], swing, s[:, 0] * s[:, 1]], 1)

    def step(s, _):
        a = slope(s)
        b = slope(s + 0.005 * a)
        c = slope(s + 0.005 * b)
        d = slope(s + 0.01 * c)
        return s + 0.01 / 6 * (a + 2 * b + 2 * c + d), None

    return lax.scan(step, x, None, length=50)[0]


def selective_scan(u, rate, b, c, a):
    rate = jax.nn.softplus(rate)
    decay = jnp.exp(rate[..., None] * -jnp.exp(a))
    given = rate[..., None] * b[:, :, None, :] * u[..., None]

    def step(h, inputs):
        decay, given, c = inputs
        h = decay * h + given
        return h, (h * c[:, None, :]).sum(-1)

    inputs = (decay.swapaxes(0, 1), given.swapaxes(0, 1), c.swapaxes(0, 1))
    return lax.scan(step, jnp.zeros(given[:, 0].shape), inputs)[1].swapaxes(0, 1)


def likeliest_path(emitted, moves):
    def step(score, e):
        reached = score[:, :, None] + moves
        return reached.max(1) + e, reached.argmax(1)

    score, back = lax.scan(step, emitted[:, 0], emitted[:, 1:].swapaxes(0, 1))

    def before(state, back):
        state = jnp.take_along_axis(back, state[:, None], 1)[:, 0]
        return state, state

    return lax.scan(before, score.argmax(1), back, reverse=True)[1], score.max(1)


def waves(u, v):
    def step(state, _):
        u, v = state
        near = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
        v = v + 0.1 * (near - 4 * u)
        return (u + 0.1 * v, v), None

    return lax.scan(step, (u, v), None, length=12)[0][0]


def programs():
    """Functions and their inputs, by name."""
    integers = lambda count, limit: np.random.RandomState(1).randint(0, limit, count).astype(np.int32)
    keys, edges = integers(100000, 64), integers((2, 5000), 1000)
    sequences = (4, 256, 64)
    return {
        "batchnorm_grad": (batch_norm_gradients, n(8, 32, 56, 56), n(32), n(32)),
        "cumulative": (running, n(100, 100, 100)),
        "decode_attention": (attention_of_one, n(1, 8, 1, 64), n(1, 8, 2048, 64), n(1, 8, 2048, 64)),
        "dtw": (time_warping, n(50), n(51)),
        "fft_filter": (low_pass, n(200000)),
        "floyd_warshall": (shortest_paths, n(256, 256)),
        "graph_attention": (graph_attention, n(1000, 64), *edges),
        "graph_conv": (graph_convolution, n(1000, 64), *edges, n(64, 64)),
        "histogram": (histogram, keys, n(100000)),
        "ising": (magnet, n(256, 256)),
        "lattice_boltzmann": (lattice_gas, n(9, 128, 128)),
        "linear_rnn": (linear_recurrence, n(2, 1024, 256), n(2, 1024, 256)),
        "pagerank": (page_rank, n(500, 500)),
        "quantiles": (
            lambda x: (jnp.quantile(x, jnp.array([0.1, 0.5, 0.9])), jnp.median(x)),
            n(20000),
        ),
        "rk4": (pendulums, n(2000, 3)),
        "searchsorted": (
            lambda a, q: (jnp.searchsorted(jnp.sort(a), q), jnp.interp(q, jnp.sort(a), a)),
            n(4096),
            n(20000),
        ),
        "selective_scan": (
            selective_scan,
            n(*sequences),
            n(*sequences),
            n(4, 256, 16),
            n(4, 256, 16),
            n(64, 16),
        ),
        "viterbi": (likeliest_path, n(128, 60, 32), n(32, 32)),
        "wave2d": (waves, n(512, 512), n(512, 512)),
        "attention_window": (
            lambda q, k, v: jnp.einsum(
                "bhqk,bkhd->bqhd",
                jax.nn.softmax(
                    jnp.where(
                        jnp.abs(jnp.arange(512)[:, None] - jnp.arange(512)) < 64,
                        jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8,
                        -1e30,
                    ),
                    -1,
                ),
                v,
            ),
            n(2, 512, 8, 64),
            n(2, 512, 8, 64),
            n(2, 512, 8, 64),
        ),
    }
