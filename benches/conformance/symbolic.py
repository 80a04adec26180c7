"""Tests functions exported by `jax.export` with symbolic sizes: one compilation, several sizes."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import judged
from harnesses import arrays, safe, stored
from run import tegula

jax.config.update("jax_enable_x64", False)

# The number of runs of each function, each at other sizes.
RUNS = 5
UNITS = 2048


def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones((q.shape[2], k.shape[2]), bool))
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def pooled(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def recurrent(x):
    return lax.scan(lambda h, row: (jnp.tanh(h + row), h), jnp.zeros(x.shape[1:]), x)


def power(x):
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, jnp.ones_like(x)))[1]


def odd_even(x):
    return lax.cond(jnp.asarray(x.shape[0]) % 2 == 0, lambda x: x * 2, lambda x: x - 1, x)


def conv(strides, padding, **more):
    return lambda x, w: lax.conv_general_dilated(
        x, w, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), **more
    )


def polynomial_features(x):
    return jnp.concatenate([x, x**2, x**3], axis=1)


KERNEL = "3, 3, 2, 4"
# Name: (function, shapes of its arguments, types that are not f32, constraints).
FUNCTIONS = {
    "add": (lambda x, y: x + y, ["b, 4", "b, 4"]),
    "broadcast": (lambda x, y: x + y, ["b, 4", "4"]),
    "outer": (lambda x, y: x[:, None] * y[None, :], ["a", "b"]),
    "softmax": (jax.nn.softmax, ["b, n"]),
    "log_softmax": (jax.nn.log_softmax, ["b, 7"]),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=0), ["b, 3"]),
    "layer_norm": (layer_norm, ["b, s, 8"]),
    "gelu": (jax.nn.gelu, ["b, 5"]),
    "matmul": (lambda x, y: x @ y, ["m, k", "k, n"]),
    "batched_matmul": (lambda x, y: x @ y, ["b, m, 4", "b, 4, 3"]),
    "mlp": (lambda x, w, v: jnp.maximum(x @ w, 0) @ v, ["b, 6", "6, 10", "10, 2"]),
    "attention": (attention, ["b, 2, s, 4", "b, 2, s, 4", "b, 2, s, 4"]),
    "cross_attention": (attention, ["b, 1, s, 4", "b, 1, t, 4", "b, 1, t, 4"]),
    "mean": (lambda x: x.mean(0), ["b, 3"]),
    "variance": (lambda x: jnp.var(x, axis=1), ["b, n"]),
    "argmax": (lambda x: jnp.argmax(x, axis=1), ["b, n"]),
    "argmin_open": (lambda x: jnp.argmin(x, axis=0), ["b, 3"]),
    "sort": (lambda x: jnp.sort(x, axis=0), ["b, 3"]),
    "argsort": (lambda x: jnp.argsort(x, axis=-1), ["2, n"]),
    "top_k": (lambda x: lax.top_k(x, 2), ["b, 9"]),
    "cumsum": (lambda x: jnp.cumsum(x, axis=0), ["b, 3"]),
    "cumsum_last": (lambda x: jnp.cumsum(x, axis=1), ["2, n"]),
    "cumprod": (lambda x: jnp.cumprod(x, axis=0), ["b, 2"]),
    "cummax_reverse": (lambda x: lax.cummax(x, axis=0, reverse=True), ["b, 3"]),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, axis=0), ["b, 3"]),
    "reshape": (lambda x: x.reshape(-1), ["b, 4"]),
    "reshape_merge": (lambda x: x.reshape(x.shape[0] * x.shape[1], 3), ["a, b, 3"]),
    "reshape_split": (lambda x: x.reshape(x.shape[0] // 2, 2), ["2*b"]),
    "transpose": (lambda x: x.transpose(2, 0, 1), ["a, b, 3"]),
    "concatenate": (lambda x, y: jnp.concatenate([x, y]), ["a, 2", "b, 2"]),
    "stack": (lambda x, y: jnp.stack([x, y], axis=1), ["b, 2", "b, 2"]),
    "features": (polynomial_features, ["b, 3"]),
    "tile": (lambda x: jnp.tile(x, (2, 1)), ["b, 3"]),
    "repeat": (lambda x: jnp.repeat(x, 3, axis=0), ["b, 2"]),
    "flip": (lambda x: x[::-1], ["b, 3"]),
    "roll": (lambda x: jnp.roll(x, 1, axis=0), ["b, 3"]),
    "slice_first": (lambda x: x[:1], ["b, 3"]),
    "slice_but_first": (lambda x: x[1:], ["b + 1, 3"]),
    "slice_but_last": (lambda x: x[:-1], ["b + 1, 3"]),
    "slice_half": (lambda x: x[: x.shape[0] // 2], ["b, 3"]),
    "strided": (lambda x: x[::2], ["b, 3"]),
    "differences": (lambda x: x[1:] - x[:-1], ["b + 1"]),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 1))), ["b, 3"]),
    "pad_to": (lambda x: jnp.pad(x, ((0, x.shape[0]), (0, 0))), ["b, 3"]),
    "iota": (lambda x: x + jnp.arange(x.shape[0], dtype=x.dtype)[:, None], ["b, 3"]),
    "linspace": (lambda x: x * jnp.arange(x.shape[0]) / x.shape[0], ["b"]),
    "eye": (lambda x: x + jnp.eye(x.shape[0]), ["b, b"]),
    "tril": (jnp.tril, ["b, b"]),
    "diagonal": (jnp.diagonal, ["b, b"]),
    "trace": (jnp.trace, ["b, b"]),
    "one_hot": (lambda i: jax.nn.one_hot(i, 6), ["b"], ["int32"]),
    "embedding": (lambda t, i: t[i % t.shape[0]], ["v, 4", "b, s"], ["float32", "int32"]),
    "take_along": (lambda x, i: jnp.take_along_axis(x, i % 3, axis=1), ["b, 3", "b, 2"], ["float32", "int32"]),
    "scatter_add": (lambda x, i, u: x.at[i % x.shape[0]].add(u), ["n, 2", "b", "b, 2"], ["float32", "int32", "float32"]),
    "scatter_set": (lambda x: x.at[0].set(7.0), ["b, 2"]),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 0), (1, 3)), ["b, 3", ""], ["float32", "int32"]),
    "update": (lambda x, u: lax.dynamic_update_slice(x, u, (0, 0)), ["b, 3", "1, 3"]),
    "conv_same": (conv((1, 1), "SAME"), ["b, 8, 8, 2", KERNEL]),
    "conv_open": (conv((1, 1), "VALID"), ["b, h + 2, w + 2, 2", KERNEL]),
    "conv_strided": (conv((2, 2), "SAME"), ["b, 2*h, 8, 2", KERNEL]),
    "conv_dilated": (conv((1, 1), "SAME", rhs_dilation=(2, 2)), ["b, 9, 9, 2", KERNEL]),
    "max_pool": (pooled, ["b, 8, 8, 2"]),
    "max_pool_open": (pooled, ["b, 2*h, 2*w, 2"]),
    "scan": (recurrent, ["t, 3"]),
    "scan_batch": (recurrent, ["4, b"]),
    "while": (power, ["b, 3"]),
    "cond": (odd_even, ["b, 3"]),
    "fori": (lambda x: lax.fori_loop(0, x.shape[0], lambda i, s: s + x[i], jnp.zeros(3)), ["b, 3"]),
    "vmap": (lambda x: jax.vmap(lambda row: row @ row)(x), ["b, n"]),
    "grad": (lambda x, w: jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(w), ["b, 3", "3, 2"]),
    "grad_softmax": (lambda x: jax.grad(lambda x: jnp.sum(jax.nn.softmax(x)[:, 0]))(x), ["b, 4"]),
    "random": (lambda x: x + jax.random.uniform(jax.random.key(1), x.shape), ["b, 3"]),
    "normal": (lambda x: x * jax.random.normal(jax.random.key(2), (x.shape[0],)), ["b"]),
    "derived": (lambda x, y: x + y.reshape(-1, 2).sum(1), ["b", "2*b"]),
    "remainder": (lambda x: x[: x.shape[0] // 3 * 3].reshape(x.shape[0] // 3, 3), ["b"], None, ["b >= 3"]),
    "constrained": (lambda x, y: x + y[: x.shape[0]], ["a", "b"], None, ["a <= b", "b >= 2"]),
    "bf16": (lambda x: jax.nn.softmax(x @ x.T), ["b, 8"], ["bfloat16"]),
    "complex": (lambda x: jnp.abs(jnp.fft.fft(x)), ["b, 8"]),
    "clip": (lambda x: jnp.clip(x, -1, 1), ["b, 2"]),
    "counts": (lambda x, y: (x[:, None] < y[None, :]).sum(0), ["n", "b"]),
    "einsum": (lambda x, y: jnp.einsum("bij,bjk->bik", x, y), ["b, m, n", "b, n, 3"]),
    "batch_norm": (lambda x: (x - x.mean((0, 1))) / jnp.sqrt(x.var((0, 1)) + 1e-3), ["b, s, 3"]),
}


def programs(_):
    """The functions, by name."""
    return {name: (entry + (None, None))[:4] for name, entry in FUNCTIONS.items()}


def at_sizes(specs, sizes):
    """The shapes of the arguments, given the values of the symbols."""
    return [tuple(eval(part, {}, sizes) for part in spec.split(",") if part.strip()) for spec in specs]


def judge(name, program, arguments):
    function, specs, types, constraints = program
    types = [jnp.dtype(ty) for ty in types or ["float32"] * len(specs)]
    rng = np.random.RandomState(zlib.crc32(name.encode()))
    jitted = jax.jit(function)
    try:
        scope = jax.export.SymbolicScope(constraints or ())
        shapes = [jax.export.symbolic_shape(spec, scope=scope) for spec in specs]
        described = [jax.ShapeDtypeStruct(shape, ty) for shape, ty in zip(shapes, types)]
        exported = jax.export.export(jitted)(*described)
    except Exception as error:
        return "not xla's", " ".join(str(error).split())[:200]
    stem = arguments.folder / safe(name)
    file = stem.with_name(stem.name + ".jaxexport")
    file.write_bytes(exported.serialize())
    symbols = sorted({symbol for spec in specs for symbol in spec if symbol.isalpha()})
    for run in range(RUNS):
        sizes = {symbol: int(rng.randint(1, 12)) for symbol in symbols}
        if constraints:
            while not all(eval(c, {}, sizes) for c in constraints):
                sizes = {symbol: int(rng.randint(1, 12)) for symbol in symbols}
        given = []
        for shape, ty in zip(at_sizes(specs, sizes), types):
            values = rng.randint(0, 9, shape) if ty.kind == "i" else rng.uniform(0.1, 1.5, shape)
            given.append(np.asarray(values).astype(ty))
        expected = arrays(jitted(*given))
        given_file, found_file = (stem.with_name(stem.name + end) for end in (".npz", ".out.npz"))
        np.savez(given_file, **{f"in{i}": stored(array) for i, array in enumerate(given)})
        failure = tegula(arguments, "run", file, "--inputs", given_file, "--outputs", found_file)
        if failure:
            return failure[0], f"{sizes}: {failure[1]}"
        with np.load(found_file) as npz:
            found = [npz[f"out{i}"] for i in range(len(expected))]
        found = [f if f.dtype == e.dtype else f.view(e.dtype) for f, e in zip(found, expected)]
        found_file.unlink()
        for one, other in zip(expected, found):
            wrong = judged.apart(one, other, UNITS if judged.precision(one.dtype) else 1)
            if wrong:
                return "differs", f"{sizes}: {wrong}"
        given_file.unlink()
    if constraints and not refuses_violation(file, specs, types, constraints, symbols, arguments):
        return "differs", "a violated constraint does not end the run with JAX's message"
    file.unlink()
    return "agrees", ""


def refuses_violation(file, specs, types, constraints, symbols, arguments):
    """Whether a run at sizes that violate the constraints ends with the message that JAX wrote."""
    sizes = {symbol: 5 - place for place, symbol in enumerate(symbols)}
    if all(eval(c, {}, sizes) for c in constraints):
        sizes = {symbol: 1 for symbol in symbols}
    given = [np.ones(shape, ty) for shape, ty in zip(at_sizes(specs, sizes), types)]
    given_file = file.with_suffix(".npz")
    np.savez(given_file, **{f"in{i}": stored(array) for i, array in enumerate(given)})
    outcome, said = tegula(arguments, "run", file, "--inputs", given_file) or ("", "")
    given_file.unlink()
    return outcome == "refused" and "Input shapes do not match" in said
