"""Parts of training steps, simulations, images."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from everyday import layer_norm
from inputs import numbers as n


def convolution(x, kernel, stride=1, groups=1):
    return lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def inverted_residual(x, widen, depthwise, narrow):
    wide = jax.nn.relu6(convolution(x, widen))
    wide = jax.nn.relu6(convolution(wide, depthwise, groups=wide.shape[-1]))
    return x + convolution(wide, narrow)


def layer_norm_gradients(x, scale, shift, given):
    result, back = jax.vjp(layer_norm, x, scale, shift)
    return result, *back(given)


def cross_entropy_gradient(logits, classes):
    def loss(logits):
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), classes[:, None], 1)
        return -chosen.mean()

    return jax.value_and_grad(loss)(logits)


def attraction(places, masses):
    apart = places[:, None] - places
    squared = (apart * apart).sum(-1) + 0.01
    return (apart * (masses * squared**-1.5)[..., None]).sum(1)


def nearest(a, b):
    distances = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T
    return jnp.argmin(distances, 1), lax.top_k(-distances, 5)


def heat_on_a_torus(x):
    def step(x, _):
        around = sum(jnp.roll(x, shift, axis) for shift in (1, -1) for axis in range(3))
        return 0.4 * x + 0.1 * around, None

    return lax.scan(step, x, None, length=8)[0]


def option_by_simulation(key):
    normal = jax.random.normal(key, (200000,))
    return jnp.maximum(100 * jnp.exp(0.015 + 0.2 * normal) - 105, 0).mean()


def gru_without_input(x, wx, wh, bias):
    width = wh.shape[0]
    h = jnp.zeros((x.shape[0], width))
    for _ in range(6):
        gx, gh = x @ wx + bias, h @ wh
        reset = jax.nn.sigmoid(gx[:, :width] + gh[:, :width])
        keep = jax.nn.sigmoid(gx[:, width : 2 * width] + gh[:, width : 2 * width])
        h = (1 - keep) * jnp.tanh(gx[:, 2 * width :] + reset * gh[:, 2 * width :]) + keep * h
    return h


def attention_with_slopes(q, k, v, slopes):
    place = jnp.arange(q.shape[2])
    scores = q @ k.swapaxes(2, 3) / 8
    scores -= slopes[:, None, None] * jnp.abs(place[:, None] - place)
    return jax.nn.softmax(jnp.where(place[:, None] >= place, scores, -1e9)) @ v


def long_convolution(x, filters):
    size = 2 * x.shape[-1]
    product = jnp.fft.rfft(x, size) * jnp.fft.rfft(filters, size)
    return jnp.fft.irfft(product, size)[:, : x.shape[-1]]


def three_convolutions(x, *kernels):
    def loss(a, b, c):
        hidden = jax.nn.relu(convolution(jax.nn.relu(convolution(x, a, 2)), b))
        return (convolution(hidden, c) ** 2).mean()

    return jax.value_and_grad(loss, (0, 1, 2))(*kernels)


def convolution_features_first(x, kernel):
    return jax.nn.relu(lax.conv_general_dilated(x, kernel, (1, 1), "SAME"))


def power_iteration(a):
    def step(v, _):
        w = a @ v
        return w / jnp.linalg.norm(w), None

    return lax.scan(step, jnp.ones(a.shape[0]), None, length=50)[0]


def gated_layers(x, up, down, given):
    loss = lambda up, down: ((jax.nn.silu(x @ up) * (x @ up)) @ down * given).sum()
    return jax.value_and_grad(loss, (0, 1))(up, down)


def product_and_norm(x, w):
    y = (x @ w).astype(jnp.float32)
    return (y * lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6)).astype(jnp.bfloat16)


def game_of_life(x):
    size = x.shape[0]

    def step(alive, _):
        padded = jnp.pad(alive, 1)
        around = sum(padded[i : i + size, j : j + size] for i in range(3) for j in range(3))
        around -= alive
        return ((around == 3) | ((alive == 1) & (around == 2))).astype(jnp.int32), None

    return lax.scan(step, (x > 0).astype(jnp.int32), None, length=10)[0]


def logistic_regression(x, w):
    truth = (x[:, 0] > 0).astype(jnp.float32)

    def step(w, _):
        return w - 0.5 * x.T @ (jax.nn.sigmoid(x @ w) - truth) / x.shape[0], None

    return lax.scan(step, w, None, length=20)[0]


def normalised_images(x):
    mean, deviation = x.mean((2, 3), keepdims=True), x.std((2, 3), keepdims=True)
    return ((x - mean) / deviation).transpose(0, 2, 3, 1)


def sphere(rays, light):
    origin = rays * 2
    direction = origin / jnp.linalg.norm(origin, axis=-1, keepdims=True)
    b, c = (origin * direction).sum(-1), (origin * origin).sum(-1) - 1
    inside = b * b - c
    distance = jnp.where(inside > 0, -b - jnp.sqrt(jnp.where(inside > 0, inside, 1.0)), 1e9)
    normal = jnp.abs(origin + distance[..., None] * direction)
    colour = jnp.where((inside > 0)[..., None], normal, jnp.array([0.1, 0.2, 0.3]))
    return colour * jnp.sin(light)[:, None, None]


def programs():
    """Functions and their inputs, by name."""
    half = lambda *shape: n(*shape).astype(jnp.bfloat16)
    classes = lambda count, limit: np.random.RandomState(1).randint(0, limit, count).astype(np.int32)
    heads = (2, 8, 256, 64)
    return {
        "alibi_attention": (attention_with_slopes, n(*heads), n(*heads), n(*heads), n(8)),
        "argsort_large": (lambda x: jnp.argsort(x)[:1000], n(500000)),
        "batched_small": (
            lambda a, b: jnp.tanh(a @ b) @ a.swapaxes(1, 2),
            n(256, 32, 32),
            n(256, 32, 32),
        ),
        "bf16_mm_norm": (product_and_norm, half(512, 768), half(768, 768)),
        "conv_nchw": (convolution_features_first, n(8, 64, 56, 56), n(64, 64, 3, 3) / 20),
        "conv_train": (
            three_convolutions,
            n(1, 64, 64, 32),
            n(3, 3, 32, 64) / 10,
            n(3, 3, 64, 64) / 10,
            n(3, 3, 64, 32) / 10,
        ),
        "cum2d": (lambda x: jnp.cumsum(jnp.cumsum(x, 0), 1), n(1000, 1000)),
        "fft_conv": (long_convolution, n(16, 4096), n(16, 4096)),
        "game": (game_of_life, n(300, 300)),
        "gru_cell_big": (
            gru_without_input,
            n(64, 512),
            n(512, 1536) / 20,
            n(512, 1536) / 20,
            n(1536),
        ),
        "inverted_residual": (
            inverted_residual,
            n(1, 56, 56, 24),
            n(1, 1, 24, 144) / 5,
            n(3, 3, 1, 144) / 5,
            n(1, 1, 144, 24) / 10,
        ),
        "knn": (nearest, n(1000, 64), n(800, 64)),
        "layernorm_bwd": (layer_norm_gradients, n(4, 128, 256), n(256), n(256), n(4, 128, 256)),
        "logreg_gd": (logistic_regression, n(1000, 500), n(500)),
        "montecarlo": (option_by_simulation, np.array([3, 4], np.uint32)),
        "nbody": (attraction, n(2000, 3), n(2000)),
        "normalize_images": (normalised_images, n(64, 3, 64, 64)),
        "power_iter": (power_iteration, n(512, 512)),
        "render": (sphere, n(100, 100, 3), n(100)),
        "resize_big": (
            lambda x: jax.image.resize(x, (1, 448, 448, 3), "bilinear"),
            n(1, 224, 224, 3),
        ),
        "segsum": (
            lambda x, i: jax.ops.segment_sum(x, i, 1000),
            n(100000),
            classes(100000, 1000),
        ),
        "softmax_bwd": (jax.grad(lambda x: (jax.nn.softmax(x) ** 3).sum()), n(32, 128, 128)),
        "stencil3d": (heat_on_a_torus, n(48, 48, 48)),
        "swiglu_train": (
            gated_layers,
            n(128, 256),
            n(256, 1024) / 20,
            n(1024, 256) / 20,
            n(128, 256),
        ),
        "xent_grad": (cross_entropy_gradient, n(256, 8000), classes(256, 8000)),
    }
