"""Everyday operations at odd sizes, in gradients and in loops; losses, physics, pictures."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inputs import numbers as n


def cross_covariance(x, y):
    x, y = x - x.mean(0), y - y.mean(0)
    return x.T @ y / (x.shape[0] - 1)


def conjugate_gradients(a, b):
    """Forty conjugate-gradient steps for a symmetric matrix."""

    def step(state, _):
        x, r, p, rr = state
        ap = a @ p
        alpha = rr / (p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        new = r @ r
        return (x, r, r + new / rr * p, new), None

    return lax.scan(step, (jnp.zeros_like(b), b, b, b @ b), None, length=40)[0][0]


def inverses(a):
    """Inverses of many 3x3 matrices by cofactors."""
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
    """The log likelihood of a Gaussian mixture."""
    z = (x[:, None] - means) / scales
    log = -0.5 * (z * z).sum(-1) - jnp.log(scales).sum(-1) + jax.nn.log_softmax(weights)
    return jax.nn.logsumexp(log, -1)


def routed(x, gate, up, down):
    """A mixture of experts: all are computed, and two are selected."""
    scores, chosen = lax.top_k(x @ gate, 2)
    share = jax.nn.softmax(scores)
    weight = (jax.nn.one_hot(chosen, gate.shape[1]) * share[..., None]).sum(1)
    h = jax.nn.relu(jnp.einsum("td,edf->etf", x, up))
    return jnp.einsum("etf,efd,te->td", h, down, weight)


def resized(x):
    return jax.image.resize(x, (x.shape[0], 192, 160, x.shape[3]), "bilinear")


def median(x):
    """A 3x3 median filter."""
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
    """One training step of a three-layer perceptron."""

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
    """Rows quantised to `s8`, and their scales."""
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
    """Ten steps of the three-dimensional heat equation with fixed boundary values."""

    def step(_, u):
        c = u[1:-1, 1:-1, 1:-1]
        near = u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1]
        near = near + u[1:-1, :-2, 1:-1] + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2]
        return u.at[1:-1, 1:-1, 1:-1].set(c + 0.1 * (near - 6 * c))

    return lax.fori_loop(0, 10, step, u)


def bodies(x, v):
    """Ten time steps of 256 bodies."""

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
    """The contrastive loss of pairs of images and texts (CLIP)."""
    a = a / jnp.linalg.norm(a, axis=-1, keepdims=True)
    b = b / jnp.linalg.norm(b, axis=-1, keepdims=True)
    s = a @ b.T / 0.07
    return -(jnp.diag(jax.nn.log_softmax(s)) + jnp.diag(jax.nn.log_softmax(s, 0))).mean()


def patches(x, w):
    """Patch embedding: images divided into 16x16 patches, each of which is embedded."""
    b, h, width, c = x.shape
    x = x.reshape(b, h // 16, 16, width // 16, 16, c).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(b, -1, 256 * c) @ w


def windows(x, w):
    """Attention in shifted 8x8 windows of an image (Swin)."""
    x = jnp.roll(x, (-4, -4), (1, 2))
    b, h, width, c = x.shape
    x = x.reshape(b, h // 8, 8, width // 8, 8, c).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 64, c)
    q, k, v = jnp.split(x @ w, 3, -1)
    s = jax.nn.softmax(q @ k.transpose(0, 2, 1) / np.sqrt(c))
    return s @ v


def spectrum(x):
    """The power spectrum of overlapping windows of a real signal."""
    at = jnp.arange(0, x.shape[0] - 512 + 1, 128)[:, None] + jnp.arange(512)
    f = jnp.fft.rfft(x[at] * jnp.hanning(512))
    return jnp.log(jnp.abs(f) ** 2 + 1e-6)


# Losses, physics, signals, graphs, sampling, pictures: added later, in the same spirit.


def focal_gradient(logits, labels):
    """The gradient of the focal loss, which gives easy examples less weight."""

    def loss(logits):
        log = jax.nn.log_softmax(logits)
        right = jnp.take_along_axis(log, labels[:, None], -1)[:, 0]
        return -((1 - jnp.exp(right)) ** 2 * right).mean()

    return jax.grad(loss)(logits)


def triplets(x, labels):
    """The triplet loss with the farthest positive and the nearest negative."""
    square = (x * x).sum(-1)
    distance = jnp.sqrt(jnp.maximum(square[:, None] + square - 2 * x @ x.T, 1e-12))
    same = labels[:, None] == labels
    far = jnp.where(same, distance, 0).max(-1)
    near = jnp.where(same, jnp.inf, distance).min(-1)
    return jax.nn.relu(far - near + 0.2).mean()


def lennard_jones(x):
    """Lennard-Jones forces between all pairs, as the gradient of the energy."""

    def energy(x):
        d = x[:, None] - x
        r = (d * d).sum(-1) + jnp.eye(x.shape[0])
        s = 1 / r**3
        return jnp.triu(4 * (s * s - s), 1).sum()

    return -jax.grad(energy)(x)


def cloth(x, v, edges, lengths):
    """Twenty time steps of a mass-spring system."""
    a, b = edges.T

    def step(state, _):
        x, v = state
        d = x[b] - x[a]
        r = jnp.sqrt((d * d).sum(-1) + 1e-6)
        f = (20 * (r - lengths) / r)[:, None] * d
        force = jnp.zeros_like(x).at[a].add(f).at[b].add(-f)
        v = 0.99 * v + 0.01 * (force - jnp.array([0, 0, 9.8]))
        return (x + 0.01 * v, v), None

    return lax.scan(step, (x, v), None, length=20)[0]


def finite_response(x, taps):
    return jnp.convolve(x, taps, mode="same")


def biquad(x, b, a):
    """A second-order recursive (IIR) filter on many channels."""

    def step(state, now):
        z1, z2 = state
        y = b[0] * now + z1
        return (b[1] * now - a[0] * y + z2, b[2] * now - a[1] * y), y

    zeros = jnp.zeros(x.shape[1])
    return lax.scan(step, (zeros, zeros), x)[1]


def bilateral(x):
    """A 5x5 bilateral filter."""
    h, w = x.shape
    p = jnp.pad(x, 2, mode="edge")
    total, weights = jnp.zeros_like(x), jnp.zeros_like(x)
    for i in range(5):
        for j in range(5):
            near = p[i : i + h, j : j + w]
            weight = jnp.exp(-((i - 2) ** 2 + (j - 2) ** 2) / 4.5 - (near - x) ** 2 / 0.5)
            total, weights = total + weight * near, weights + weight
    return total / weights


def box_mean(x):
    """An 11x11 box filter, computed from cumulative sums (an integral image)."""
    s = jnp.pad(jnp.cumsum(jnp.cumsum(x, 0), 1), ((1, 0), (1, 0)))
    return (s[11:, 11:] - s[:-11, 11:] - s[11:, :-11] + s[:-11, :-11]) / 121


def triangles(edges):
    """The number of triangles that contain each node of a graph."""
    a = jnp.zeros((256, 256)).at[edges[:, 0], edges[:, 1]].set(1)
    a = jnp.maximum(a, a.T) * (1 - jnp.eye(256))
    return ((a @ a) * a).sum(-1) / 2


def gumbel(key, logits):
    return jax.random.categorical(key, logits, axis=-1)


def leapfrog(w, p, x, y):
    """Ten leapfrog steps (Hamiltonian Monte Carlo) for a logistic regression."""
    slope = jax.grad(lambda w: jnp.logaddexp(0, -y * (x @ w)).sum() + 0.5 * (w * w).sum())

    def step(state, _):
        w, p = state
        p = p - 0.005 * slope(w)
        w = w + 0.01 * p
        return (w, p - 0.005 * slope(w)), None

    return lax.scan(step, (w, p), None, length=10)[0]


def opened(x):
    """The morphological opening with a 5x5 window, and the difference to the input (top-hat)."""
    window = lambda x, start, op: lax.reduce_window(x, start, op, (5, 5), (1, 1), "SAME")
    y = window(window(x, jnp.inf, lax.min), -jnp.inf, lax.max)
    return y, x - y


def structural_similarity(x, y):
    g = np.exp(-0.5 * (np.arange(11) - 5) ** 2 / 2.25).astype(np.float32)
    g = g / g.sum()
    rows = lambda x: sum(g[i] * x[i : x.shape[0] - 10 + i] for i in range(11))
    blur = lambda x: rows(rows(x).T).T
    mx, my = blur(x), blur(y)
    vx, vy, c = blur(x * x) - mx * mx, blur(y * y) - my * my, blur(x * y) - mx * my
    return ((2 * mx * my + 0.01) * (2 * c + 0.03) / ((mx**2 + my**2 + 0.01) * (vx + vy + 0.03))).mean()


def alignment(log, labels):
    """The connectionist temporal classification (CTC) loss."""
    b, n = labels.shape
    states = jnp.zeros((b, 2 * n + 1), int).at[:, 1::2].set(labels)
    skip = jnp.pad(states[:, 2:] != states[:, :-2], ((0, 0), (2, 0))) & (states != 0)
    log = jnp.take_along_axis(log, jnp.broadcast_to(states, (log.shape[0], *states.shape)), -1)
    none = -1e30
    first = jnp.where(jnp.arange(2 * n + 1) < 2, log[0], none)

    def step(alpha, now):
        one = jnp.pad(alpha[:, :-1], ((0, 0), (1, 0)), constant_values=none)
        two = jnp.pad(alpha[:, :-2], ((0, 0), (2, 0)), constant_values=none)
        two = jnp.where(skip, two, none)
        return jnp.logaddexp(jnp.logaddexp(alpha, one), two) + now, None

    last = lax.scan(step, first, log[1:])[0]
    return -jnp.logaddexp(last[:, -1], last[:, -2])


def shallow_water(h, u, v):
    """Twenty steps of the shallow-water equations with periodic boundaries."""

    def step(_, state):
        h, u, v = state
        slope = lambda x, axis: (jnp.roll(x, -1, axis) - jnp.roll(x, 1, axis)) / 2
        u, v = u - 0.1 * slope(h, 1), v - 0.1 * slope(h, 0)
        return h - 0.1 * (slope(h * u, 1) + slope(h * v, 0)), u, v

    return lax.fori_loop(0, 20, step, (h, u, v))


def spheres(rays, centres, radii, colours):
    """Ray casting: the shading of the nearest sphere that each ray hits."""
    b = rays @ centres.T
    d = b * b - (centres * centres).sum(-1) + radii * radii
    t = jnp.where(d > 0, b - jnp.sqrt(jnp.maximum(d, 0)), jnp.inf)
    t = jnp.where(t > 0, t, jnp.inf)
    nearest = t.argmin(-1)
    at = jnp.take_along_axis(t, nearest[:, None], -1)
    normal = (rays * at - centres[nearest]) / radii[nearest][:, None]
    light = jnp.maximum(normal @ jnp.array([0.5, 0.7, -0.5]), 0.1)
    return jnp.where(jnp.isfinite(at), colours[nearest] * light[:, None], 0)


def density(x, points):
    """A kernel density estimate with a Gaussian kernel, and its gradient."""
    d = x[:, None] - points
    k = jnp.exp(-0.5 * (d * d).sum(-1) / 0.09)
    return k.mean(-1), -(k[..., None] * d).mean(1) / 0.09


def particles(noise, seen, at):
    """A particle filter of twenty steps, with resampling in each."""

    def step(x, now):
        noise, seen, at = now
        x = 0.9 * x + 2 * jnp.sin(x) + noise
        weights = jax.nn.softmax(-0.5 * (x - seen) ** 2)
        places = (jnp.arange(x.shape[0]) + at) / x.shape[0]
        chosen = jnp.searchsorted(jnp.cumsum(weights), places)
        x = x[jnp.minimum(chosen, x.shape[0] - 1)]
        return x, x.mean()

    return lax.scan(step, noise[0], (noise, seen, at))[1]


def programs():
    """Functions and their inputs, by name."""
    random = np.random.RandomState(3)
    integers = lambda shape, limit: random.randint(0, limit, shape).astype(np.int32)
    key = np.array([1, 2], np.uint32)
    a = n(300, 300)
    half = lambda *shape: n(*shape).astype(jnp.bfloat16)
    return {
        "alignment": (alignment, np.log(random.dirichlet(np.ones(30), (60, 16))).astype(np.float32), 1 + integers((16, 12), 29)),
        "arranged": (arranged, n(64, 1000)),
        "attention_gradients": (attention_gradients, *(n(2, 4, 96, 48) + i for i in range(3))),
        "batch_norm_training": (batch_norm_training, n(8, 28, 28, 96), n(96), n(96)),
        "bilateral": (bilateral, n(160, 200)),
        "biquad": (biquad, n(1000, 96), n(3, 96), n(2, 96) / 4),
        "bodies": (bodies, n(256, 3), n(256, 3)),
        "box_mean": (box_mean, n(300, 400)),
        "chain": (chain, n(60, 16, 24), n(24, 24)),
        "cloth": (cloth, n(900, 3), n(900, 3), integers((2600, 2), 900), np.abs(n(2600))),
        "conjugate_gradients": (conjugate_gradients, a @ a.T + 300 * np.eye(300, dtype=np.float32), n(300)),
        "contrastive": (contrastive, n(200, 384), n(200, 384)),
        "conv3d": (convolved, n(2, 12, 20, 20, 16), n(3, 3, 3, 16, 24)),
        "conv_7x7_rgb": (lambda x, w: convolved(x, w, 2), n(2, 112, 112, 3), n(7, 7, 3, 48)),
        "conv_bf16": (convolved, half(4, 28, 28, 72), half(3, 3, 72, 80)),
        "conv_depthwise_5x5": (lambda x, w: convolved(x, w, 2, groups=96), n(4, 30, 30, 96), n(5, 5, 1, 96)),
        "conv_gradients": (convolution_gradients, n(4, 30, 30, 24), n(3, 3, 24, 40)),
        "cross_covariance": (cross_covariance, n(2000, 60), n(2000, 90)),
        "density": (density, n(700, 3), n(400, 3)),
        "dropped": (dropped, key, n(300, 1000)),
        "finite_response": (finite_response, n(30000), n(63)),
        "focal_gradient": (focal_gradient, n(3000, 40), integers(3000, 40)),
        "gelu_gradient": (gelu_gradient, n(300, 1500), n(300, 1500)),
        "gumbel": (gumbel, key, n(64, 3000)),
        "heat": (heat, n(50, 50, 50)),
        "interpolated": (interpolated, 10 * random.rand(20000).astype(np.float32), np.arange(11, dtype=np.float32), n(11)),
        "inverses": (inverses, n(5000, 3, 3)),
        "julia": (julia, (n(200, 300) + 1j * n(300, 200).T).astype(np.complex64)),
        "leapfrog": (leapfrog, n(40) / 10, n(40), n(1500, 40), np.sign(n(1500))),
        "lennard_jones": (lennard_jones, 4 * n(220, 3)),
        "lstm": (lstm, n(30, 12, 40), n(40, 4 * 72) / 8, n(72, 4 * 72) / 8, n(4 * 72)),
        "median": (median, n(200, 300)),
        "mixture": (mixture, n(3000, 6), n(20, 6), np.abs(n(20, 6)) + 0.1, n(20)),
        "opened": (opened, n(200, 300)),
        "particles": (particles, n(20, 2000), n(20), np.abs(n(20)) % 1),
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
        "shallow_water": (shallow_water, 1 + n(100, 130) / 10, n(100, 130) / 10, n(100, 130) / 10),
        "softmax_gradient": (softmax_gradient, n(400, 700), n(400, 700)),
        "sorted_columns": (sorted_columns, n(500, 60)),
        "spectrum": (spectrum, n(20000)),
        "spheres": (spheres, n(9000, 3) / 3 + np.float32([0, 0, 1]), n(12, 3) + np.float32([0, 0, 5]), np.abs(n(12)) + 0.3, np.abs(n(12, 3))),
        "structural_similarity": (structural_similarity, n(150, 170), n(150, 170)),
        "swish_gradient": (swish_gradient, n(300, 1000)),
        "triangles": (triangles, integers((3000, 2), 256)),
        "triplets": (triplets, n(300, 64), integers(300, 20)),
        "windows": (windows, n(2, 48, 48, 64), n(64, 192)),
    }
