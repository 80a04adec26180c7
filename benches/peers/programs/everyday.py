"""Everyday shapes: normalisations, attention, reductions along each dimension, recurrences,
products and convolutions."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inputs import numbers


def softmax(x):
    return jax.nn.softmax(x, axis=-1)


def layer_norm(x, scale, shift):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def rms_norm(x, scale):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale


def causal_attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones((q.shape[2], k.shape[2]), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), -1)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, v)


def black_scholes(spot, strike, years):
    sd = 0.3 * jnp.sqrt(years)
    d1 = (jnp.log(spot / strike) + (0.02 + 0.5 * 0.3**2) * years) / sd
    normal = lambda x: 0.5 * (1 + lax.erf(x / np.sqrt(2)))
    return spot * normal(d1) - strike * jnp.exp(-0.02 * years) * normal(d1 - sd)


def jacobi(u):
    def step(u, _):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return u.at[1:-1, 1:-1].set(0.25 * around), None

    return lax.scan(step, u, None, length=20)[0]


def gru(x, h, wx, wh):
    def step(h, x):
        a, b, c = jnp.split(x @ wx + h @ wh, 3, -1)
        h = jax.nn.sigmoid(a) * h + jax.nn.sigmoid(b) * jnp.tanh(c)
        return h, h

    return lax.scan(step, h, x)[1]


def lstm_gradient(x, wx, wh):
    def loss(wx, wh):
        def step(state, x):
            h, c = state
            i, f, g, o = jnp.split(x @ wx + h @ wh, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((x.shape[1], wh.shape[0]))
        return (lax.scan(step, (zero, zero), x)[1] ** 2).sum()

    return jax.value_and_grad(loss, (0, 1))(wx, wh)


def loss_of_classes(x, classes):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(x, -1), classes[:, None], -1)
    return -chosen.mean()


def convolution(stride, layout):
    dims = (layout, "HWIO" if layout == "NHWC" else "OIHW", layout)
    strides = (stride, stride)
    return lambda x, w: jax.nn.relu(
        lax.conv_general_dilated(x, w, strides, "SAME", dimension_numbers=dims)
    )


def programs():
    n = numbers
    heads, few = n(1, 12, 256, 64), n(8, 4, 64, 32)
    million = np.abs(n(1_000_000))
    return {
        "softmax_1k": (softmax, n(1024, 1024)),
        "softmax_32k": (softmax, n(64, 32000)),
        "softmax_small": (softmax, n(16384, 64)),
        "softmax_axis0": (lambda x: jax.nn.softmax(x, 0), n(1024, 1024)),
        "softmax_bf16_1k": (softmax, n(1024, 1024).astype(jnp.bfloat16)),
        "ln_1k": (layer_norm, n(1024, 1024), n(1024), n(1024)),
        "ln_768": (layer_norm, n(4096, 768), n(768), n(768)),
        "rms_4k": (rms_norm, n(512, 4096), n(4096)),
        "attn_causal": (causal_attention, heads, heads, heads),
        "attn_small": (causal_attention, few, few, few),
        "mlp_gelu": (lambda x, w, b: jax.nn.gelu(x @ w + b), n(256, 768), n(768, 3072), n(3072)),
        "bs_1m": (black_scholes, million + 1, million + 1, million + np.float32(0.1)),
        "jacobi_1k": (jacobi, n(1024, 1024)),
        "gru": (gru, n(64, 16, 128), n(16, 128), n(128, 384) / 12, n(128, 384) / 12),
        "logsm_nll": (loss_of_classes, n(512, 10000), np.arange(512, dtype=np.int32)),
        "lstm_grad": (lstm_gradient, n(40, 32, 64), n(64, 1024) / 10, n(256, 1024) / 10),
        "gelu_4m": (jax.nn.gelu, n(4, 1024, 1024)),
        "sort_2d": (lambda x: jnp.sort(x, -1), n(256, 1024)),
        "argmax": (lambda x: jnp.argmax(x, -1), n(256, 10000)),
        "colsum": (lambda x: x.sum(0), n(2048, 2048)),
        "rowsum": (lambda x: x.sum(1), n(2048, 2048)),
        "transpose": (lambda x: x.T + 1.0, n(2048, 2048)),
        "mm_nt": (lambda a, b: a @ b.T, n(512, 512), n(512, 512)),
        "mm_rect": (lambda a, b: a @ b, n(384, 1536), n(1536, 512)),
        "mv": (lambda a, b: a @ b, n(1, 768), n(768, 3072)),
        "mv4k": (lambda a, b: a @ b, n(1, 4096), n(4096, 4096)),
        "conv3": (convolution(1, "NHWC"), n(1, 56, 56, 64), n(3, 3, 64, 64)),
        "convnchw": (convolution(2, "NCHW"), n(2, 32, 64, 64), n(64, 32, 3, 3)),
        "cumsum_2d": (lambda x: jnp.cumsum(x, -1), n(512, 2048)),
        "topk": (lambda x: lax.top_k(x, 10), n(128, 5000)),
    }
