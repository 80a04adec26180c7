"""Loops of small steps, and others that cost more than they look: each was a cliff once."""

import jax
import jax.numpy as jnp
import numpy as np

NEEDS = ()


def turned(x, a):
    def body(i, x):
        y = a @ x[:9].reshape(3, 3)
        return jnp.concatenate([y.reshape(-1) * 0.5, x[9:] + 1.0]) * 0.9

    return jax.lax.fori_loop(0, 100_000, body, x)


def invariant_sum():
    body = lambda c, x: ((jnp.sum(jnp.arange(100_000) ** 2) + c) + x, None)
    return jax.lax.scan(body, jnp.int32(0), jnp.arange(100_000))[0]


def programs():
    r = np.random.RandomState(0)
    v, m = r.randn(10).astype(np.float32), r.randn(14, 3).astype(np.float32)
    found = {
        "state_of_ten": (turned, v, np.linalg.qr(r.randn(3, 3))[0].astype(np.float32)),
        "invariant_sum": (invariant_sum,),
        "dot_of_ten": (
            lambda x: jax.lax.fori_loop(0, 1000, lambda i, x: x * 0.99 + jnp.dot(x, x) * 1e-3, x), v),
        "matrix_vector": (
            lambda c, w: jax.lax.fori_loop(
                0, 1000, lambda i, c: c * 0.5 + jnp.tanh(c @ w)[0] * 1e-3, c),
            r.randn(14).astype(np.float32), m),
        "stacked_slices": (
            lambda x, at: jnp.stack([jax.lax.dynamic_slice(x, (0, at[i], 0), (1, 32, 64)) for i in range(64)]),
            r.randn(1, 2048, 64).astype(np.float32), r.randint(0, 2016, 64).astype(np.int32)),
        "householder": (householder, r.randn(12, 12).astype(np.float32)),
        "symplectic_euler": (symplectic, r.randn(3).astype(np.float32), r.randn(3).astype(np.float32)),
        "golden_section": (golden, np.float32(0.1), np.float32(3.0)),
        "collatz": (collatz, np.arange(1, 257, dtype=np.int32)),
    }
    return found


def householder(a):
    def body(k, a):
        x = jnp.where(jnp.arange(a.shape[0]) >= k, a[:, k], 0)
        v = x.at[k].add(jnp.sign(x[k]) * jnp.linalg.norm(x))
        v = v / jnp.maximum(jnp.linalg.norm(v), 1e-20)
        return a - 2 * jnp.outer(v, v @ a)

    return jax.lax.fori_loop(0, a.shape[0] - 1, body, a)


def symplectic(q, p):
    def body(i, s):
        q, p = s
        p = p - 0.01 * q / (1e-3 + jnp.sum(q * q)) ** 1.5
        return q + 0.01 * p, p

    return jax.lax.fori_loop(0, 600, body, (q, p))


def golden(a, b):
    f = lambda x: jnp.sin(x) + 0.1 * x * x

    def body(s):
        a, b = s
        c, d = b - (b - a) * 0.618, a + (b - a) * 0.618
        return jax.lax.cond(f(c) < f(d), lambda: (a, d), lambda: (c, b))

    return jax.lax.while_loop(lambda s: s[1] - s[0] > 1e-4, body, (a, b))


def collatz(n):
    def one(n):
        step = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)
        return jax.lax.while_loop(lambda s: s[0] > 1, step, (n, 0))[1]

    return jax.vmap(one)(n)
