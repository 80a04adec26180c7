"""Blocks of models, complex numbers, bags of embeddings, policies."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inputs import numbers as n


def complex_functions(a, b):
    z = a * jnp.conj(b) / (jnp.abs(b) ** 2 + 1)
    return jnp.exp(z) + jnp.sqrt(z), jnp.angle(z)


def embedding_bags(dense, ids, tables, first, second, top, last):
    """Embedding bags: sums of rows of tables, and the dot products of all pairs of them."""
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
    """Advantages by a reverse scan, and the gradient of a clipped objective (PPO)."""

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
    """Chains of 4x4 transformation matrices, and a point transformed by the product."""

    def step(m, x):
        m = m @ x
        return m, m

    m = lax.scan(step, jnp.broadcast_to(jnp.eye(4), moves.shape[1:]), moves)[1]
    return jnp.einsum("tbij,bj->tbi", m, points)


def relative_attention(x, wq, wk, wv, wo, table):
    """Attention with a bias for each bucket of relative positions."""
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
    """One upsampling level of a U-Net."""
    y = lax.conv_transpose(x, up, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    y = jnp.concatenate([y, skip], -1)
    return jax.nn.relu(convolved(jax.nn.relu(convolved(y, a)), b))


def programs():
    """Functions and their inputs, by name."""
    random = np.random.RandomState(5)
    places = lambda shape, limit: random.randint(0, limit, shape).astype(np.int32)
    scaled = lambda *shape: n(*shape) / np.float32(np.sqrt(shape[-2]))
    turned = lambda rows, columns: (n(rows, columns) + 1j * n(columns, rows).T).astype(np.complex64)
    return {
        "complex_functions": (complex_functions, turned(200, 300), 2 * turned(200, 300)[::-1]),
        "complex_product": (jnp.matmul, turned(128, 160), turned(160, 96)),
        "embedding_bags": (embedding_bags, n(128, 13), places((128, 8, 5), 1000), n(8, 1000, 32), scaled(13, 64), scaled(64, 32), scaled(68, 64), scaled(64, 1)),
        "histogram_of_pairs": (histogram_of_pairs, n(50000), n(50000)[::-1]),
        "long_bags": (long_bags, n(1000, 32), places((256, 20), 1000)),
        "policy_gradient": (policy_gradient, n(64, 32, 18), -np.abs(n(64, 32)), places((64, 32), 18), n(64, 32), n(64, 32)),
        "relative_attention": (relative_attention, n(2, 128, 256), *(scaled(256, 256) for _ in range(4)), n(32, 8)),
        "rigid_chains": (rigid_chains, n(20, 300, 4, 4) / 2, n(300, 4)),
        "stem": (stem, n(2, 112, 112, 3), n(3, 3, 3, 32) / 5, n(32), n(32), n(3, 3, 1, 32) / 3),
        "up_level": (up_level, n(1, 24, 24, 64), n(1, 48, 48, 32), n(2, 2, 64, 32) / 16, n(3, 3, 64, 32) / 24, n(3, 3, 32, 32) / 17),
    }
