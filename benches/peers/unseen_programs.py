"""Thirty more programs for run.py: positions, filters, transport, sequences, sampling, blocks.

    python benches/peers/unseen_programs.py FOLDER
    python benches/peers/run.py FOLDER --threads 1 --rounds 2

needs `jax[cpu]` and `numpy`; writes what programs.py writes. They were written after those
of science_programs.py, to see what else is slow.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from programs import main, numbers as n


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
    """An image read at moved places, between its pixels."""
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
    """The logarithm of a hidden Markov model's probability."""

    def step(score, e):
        return jax.nn.logsumexp(score[:, :, None] + moves, axis=1) + e, None

    score, _ = lax.scan(step, emitted[0], emitted[1:])
    return jax.nn.logsumexp(score, axis=1)


def transported(costs):
    """Sinkhorn's iterations on logarithms."""
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
    """Gradient noise of four octaves."""
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
    """A linear recurrence by a scan of pairs."""
    combine = lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1])
    return lax.associative_scan(combine, (a, b), axis=1)[1]


def sampled(logits, uniform):
    """The words that top-p sampling leaves, and one of them."""
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
    """The same of what is bright, which is a product with three columns."""
    return edges_of(image @ jnp.array([0.3, 0.6, 0.1]))[0]


def smoothed(x):
    """A running mean by a scan of pairs, along one long dimension."""
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
    """Over groups of sixteen channels that go last."""
    g = x.reshape(*x.shape[:2], -1, 16)
    g = g - g.mean((1, 3), keepdims=True)
    g = g * lax.rsqrt((g * g).mean((1, 3), keepdims=True) + 1e-5)
    return g.reshape(x.shape) * scale + shift


def gated(x, up, down):
    h = x @ up
    return (jax.nn.silu(h) * h) @ down


def log_gamma(x):
    return jax.scipy.special.gammaln(x + 0.5).sum(0)


# Blocks of models, complex numbers, policies: added later, those that were behind or nearly so.


def complex_functions(a, b):
    z = a * jnp.conj(b) / (jnp.abs(b) ** 2 + 1)
    return jnp.exp(z) + jnp.sqrt(z), jnp.angle(z)


def embedding_bags(dense, ids, tables, first, second, top, last):
    """Sums of rows of tables, and all their products by pairs."""
    d = jax.nn.relu(jax.nn.relu(dense @ first) @ second)
    bags = jax.vmap(lambda t, i: t[i].sum(1), (0, 1), 1)(tables, ids)
    z = jnp.concatenate([d[:, None], bags], 1)
    i, j = np.tril_indices(z.shape[1], -1)
    h = jnp.concatenate([d, jnp.einsum("bid,bjd->bij", z, z)[:, i, j]], -1)
    return jax.nn.sigmoid(jax.nn.relu(h @ top) @ last)


def long_bags(table, ids):
    return table[ids].sum(1)


def histogram_of_pairs(x, y):
    place = lambda x: jnp.clip((x * 8 + 32).astype(int), 0, 63)
    h = jnp.zeros(4096, jnp.int32).at[place(x) * 64 + place(y)].add(1)
    return h.reshape(64, 64), jnp.cumsum(h) / x.shape[0]


def policy_gradient(logits, old, actions, rewards, values):
    """Advantages by a scan backwards, and the gradient of a clipped objective."""

    def advantage(a, now):
        reward, value, following = now
        a = reward + 0.99 * following - value + 0.99 * 0.95 * a
        return a, a

    following = jnp.concatenate([values[1:], jnp.zeros_like(values[:1])])
    inputs = (rewards, values, following)
    a = lax.scan(advantage, jnp.zeros(values.shape[1]), inputs, reverse=True)[1]
    a = (a - a.mean()) / (a.std() + 1e-8)

    def loss(logits):
        log = jax.nn.log_softmax(logits)
        ratio = jnp.exp(jnp.take_along_axis(log, actions[..., None], -1)[..., 0] - old)
        entropy = -(jax.nn.softmax(logits) * log).sum(-1).mean()
        return -jnp.minimum(ratio * a, jnp.clip(ratio, 0.8, 1.2) * a).mean() - 0.01 * entropy

    return jax.value_and_grad(loss)(logits)


def rigid_chains(moves, points):
    """Products of matrices of 4x4 one after the other, and where they take a point."""

    def step(m, x):
        m = m @ x
        return m, m

    m = lax.scan(step, jnp.broadcast_to(jnp.eye(4), moves.shape[1:]), moves)[1]
    return jnp.einsum("tbij,bj->tbi", m, points)


def relative_attention(x, wq, wk, wv, wo, table):
    """With a bias for each distance, by buckets."""
    q, k, v = ((x @ w).reshape(*x.shape[:2], 8, -1) for w in (wq, wk, wv))
    apart = jnp.arange(x.shape[1]) - jnp.arange(x.shape[1])[:, None]
    near = jnp.abs(apart)
    far = 8 + (jnp.log(jnp.maximum(near, 1) / 8) / np.log(16) * 8).astype(int)
    bucket = jnp.where(near < 8, near, jnp.minimum(far, 15)) + (apart > 0) * 16
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) + table[bucket].transpose(2, 0, 1)
    return x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s), v).reshape(x.shape) @ wo


def convolved(x, w, stride=1, groups=1):
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups,
    )


def stem(x, w, scale, shift, depthwise):
    h = jax.nn.silu(convolved(x, w, 2) * scale + shift)
    h = jax.nn.silu(convolved(h, depthwise, groups=h.shape[-1]))
    return lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")


def up_level(x, skip, up, a, b):
    """A level of a network of encoders and decoders, on its way up."""
    y = lax.conv_transpose(x, up, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    y = jnp.concatenate([y, skip], -1)
    return jax.nn.relu(convolved(jax.nn.relu(convolved(y, a)), b))


def unseen_programs():
    """Functions and their inputs, by name."""
    random = np.random.RandomState(2)
    integers = lambda count, limit: random.randint(0, limit, count).astype(np.int32)
    later = np.random.RandomState(5)
    places = lambda shape, limit: later.randint(0, limit, shape).astype(np.int32)
    scaled = lambda *shape: n(*shape) / np.float32(np.sqrt(shape[-2]))
    turned = lambda rows, columns: (n(rows, columns) + 1j * n(columns, rows).T).astype(np.complex64)
    weights = [n(1024, 1024) for _ in range(3)] + [np.abs(n(1024, 1024))]
    return {
        "adam": (adam, *weights, np.float32(7)),
        "associative_scan": (associative, np.tanh(n(16, 1024, 32)), n(16, 1024, 32)),
        "colour_edges": (colour_edges, n(300, 300, 3)),
        "complex_functions": (complex_functions, turned(200, 300), 2 * turned(200, 300)),
        "complex_product": (jnp.matmul, turned(128, 160), turned(160, 96)),
        "edit_distance": (edit_distance, integers(100, 4), integers(120, 4)),
        "embedding_bags": (embedding_bags, n(128, 13), places((128, 8, 5), 1000), n(8, 1000, 32), scaled(13, 64), scaled(64, 32), scaled(68, 64), scaled(64, 1)),
        "gated_bf16": (gated, *(n(*s).astype(jnp.bfloat16) for s in [(16, 512), (512, 2048), (2048, 512)])),
        "group_norm": (group_norm, n(8, 128, 512), n(512), n(512)),
        "histogram_of_pairs": (histogram_of_pairs, n(50000), n(50000)[::-1]),
        "hmm_forward": (forward_probability, n(50, 64, 32), n(32, 32)),
        "kalman": (filtered, n(50, 200, 2), n(4, 4) / 4 + np.eye(4, dtype=np.float32), n(2, 4)),
        "kmeans": (means, n(4096, 16), n(32, 16)),
        "log_gamma": (log_gamma, 4 * random.rand(400, 300).astype(np.float32)),
        "long_bags": (long_bags, n(1000, 32), places((256, 20), 1000)),
        "metropolis": (walk, n(1000, 8)),
        "noise": (noise, 8 * n(256, 256), 8 * n(256, 256)),
        "policy_gradient": (policy_gradient, n(64, 32, 18), -np.abs(n(64, 32)), places((64, 32), 18), n(64, 32), n(64, 32)),
        "relative_attention": (relative_attention, n(2, 128, 256), *(scaled(256, 256) for _ in range(4)), n(32, 8)),
        "rigid_chains": (rigid_chains, n(20, 300, 4, 4) / 2, n(300, 4)),
        "rope": (rotated, n(2, 256, 8, 64), n(2, 256, 2, 64)),
        "selective_scan": (selective_scan, *(n(16, 128, c) for c in [64, 64, 8, 8]), n(64, 8)),
        "sinkhorn": (transported, np.abs(n(256, 256))),
        "smoothed": (smoothed, n(50000)),
        "sobel": (edges_of, n(512, 512)),
        "spmv": (sparse_product, n(65536), integers(65536, 4096), np.sort(integers(65536, 4096)), n(4096)),
        "stem": (stem, n(2, 112, 112, 3), n(3, 3, 3, 32) / 5, n(32), n(32), n(3, 3, 1, 32) / 3),
        "top_p": (sampled, n(16, 8192), random.rand(16).astype(np.float32)),
        "up_level": (up_level, n(1, 24, 24, 64), n(1, 48, 48, 32), n(2, 2, 64, 32) / 16, n(3, 3, 64, 32) / 24, n(3, 3, 32, 32) / 17),
        "warp": (warped, n(256, 256, 3), 3 * n(256, 256, 2)),
    }


if __name__ == "__main__":
    main(__doc__, unseen_programs())
