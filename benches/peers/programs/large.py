"""Arrays too large for caches: what one operation writes has left them when the next one
reads it, unless both go through it part by part."""

import jax
import jax.numpy as jnp
import numpy as np

from inputs import numbers as n


def attention(q, k, v):
    """Attention with the head as the outermost dimension."""
    s = jnp.einsum("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(s, -1), v)


def causal_attention(x, w, u):
    """Causal attention with its projections; the heads of a token are adjacent in memory."""
    length, width = x.shape
    q, k, v = jnp.moveaxis((x @ w).reshape(length, 3, 12, width // 12), 1, 0)
    s = jnp.einsum("qhd,khd->hqk", q, k) * (width // 12) ** -0.5
    s = jnp.where(jnp.tril(jnp.ones((length, length), bool)), s, -1e9)
    return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(s, -1), v).reshape(length, width) @ u


def batched_attention(q, k, v, mask):
    """Attention of a batch of sequences, with a mask for each."""
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5 + mask[:, None, None]
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s, -1), v)


def cross_entropy(x, w, labels):
    """The cross entropy of next tokens, computed from hidden states."""
    logits = x @ w
    own = jnp.take_along_axis(logits, labels[:, None], -1)[:, 0]
    return (jax.nn.logsumexp(logits, -1) - own).mean()


def attention_gradient(q, k, v, g):
    return jax.grad(lambda *qkv: (attention(*qkv) * g).sum(), (0, 1, 2))(q, k, v)


def perceptron(x, a, b, c, d):
    return jax.nn.gelu(x @ a + b) @ c + d


def gated(x, w, v, u):
    return (jax.nn.silu(x @ w) * (x @ v)) @ u


def residual(x, a, b, c):
    """A residual block of an image network."""

    def convolution(x, w):
        dims = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims)

    y = jax.nn.relu(convolution(x, a))
    y = jax.nn.relu(convolution(y, b))
    return jax.nn.relu(convolution(y, c) + x)


def distances(x, y):
    """The nearest neighbour among many points."""
    d = (x * x).sum(-1)[:, None] - 2 * x @ y.T + (y * y).sum(-1)
    return jnp.argmin(d, -1), jnp.min(d, -1)


def kernel_sums(x, y, w):
    """Weighted sums of a Gaussian kernel of all pairwise distances."""
    d = (x * x).sum(-1)[:, None] - 2 * x @ y.T + (y * y).sum(-1)
    return jnp.exp(-0.5 * jnp.maximum(d, 0)) @ w


def contrastive(x, y):
    """A contrastive loss of pairs, in both directions."""
    s = x @ y.T
    own = jnp.diagonal(s)
    return (jax.nn.logsumexp(s, 0) + jax.nn.logsumexp(s, 1) - 2 * own).mean()


def gelu(x):
    return jax.nn.gelu(x)


def normalised(x, g, b):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) * jax.lax.rsqrt(v + 1e-5) * g + b


def programs():
    random = np.random.RandomState(11)
    heads, halves = n(12, 1024, 64), n(8, 1024, 64).astype(jnp.bfloat16)
    return {
        "attention_1024": (attention, heads, heads[::-1], heads + 1),
        "attention_bf16": (attention, halves, halves[::-1], halves + 1),
        "attention_gradient": (attention_gradient, *(n(8, 512, 64) for _ in range(4))),
        "attention_odd": (attention, n(6, 577, 80), n(6, 577, 80), n(6, 577, 80)),
        "batched_attention": (batched_attention, *(n(4, 384, 12, 64) for _ in range(3)), n(4, 384)),
        "causal_attention": (causal_attention, n(1024, 768), n(768, 2304) / 20, n(768, 768) / 20),
        "contrastive_2048": (contrastive, n(2048, 256) / 8, n(2048, 256) / 8),
        "cross_entropy": (cross_entropy, n(512, 256), n(256, 16000) / 16, random.randint(0, 16000, 512).astype(np.int32)),
        "distances": (distances, n(4000, 32), n(2000, 32)),
        "gated": (gated, n(2048, 256), n(256, 768) / 16, n(256, 768) / 16, n(768, 256) / 16),
        "gelu_16m": (gelu, n(4096, 4096)),
        "kernel_sums": (kernel_sums, n(3000, 16), n(3000, 16), n(3000, 8)),
        "normalised_8m": (normalised, n(8192, 1024), n(1024), n(1024)),
        "perceptron_4096": (perceptron, n(4096, 256), n(256, 1024) / 16, n(1024), n(1024, 256) / 16, n(256)),
        "perceptron_bf16": (perceptron, *(x.astype(jnp.bfloat16) for x in (n(2048, 384), n(384, 1536) / 16, n(1536), n(1536, 384) / 16, n(384)))),
        "residual": (residual, n(8, 56, 56, 64), n(1, 1, 64, 64) / 8, n(3, 3, 64, 64) / 24, n(1, 1, 64, 64) / 8),
    }
