"""One operation at a time, at the sizes of XLA's own CPU benchmarks.

The operations and sizes are those that the sources in xla/backends/cpu/benchmarks of XLA's
repository name (its `*_benchmark_test.cc`, November 2025, and the list of programs beside them,
2026): products of Gemma 3, products in batches of every type, convolutions that are strided,
transposed or grouped, windows, gathers, sorts, sums over pairs of points.
"""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from inputs import numbers as n


def bf16(*shape):
    return n(*shape).astype(ml_dtypes.bfloat16)


def whole(dtype, *shape):
    """Random small integers of a type."""
    return np.random.RandomState(0).randint(-3, 4, shape).astype(dtype)


def indices(below, *shape):
    return np.random.RandomState(0).randint(0, below, shape).astype(np.int32)


def elementwise():
    made = {}
    for rows in (128, 8192):
        shape = (1, 2, 1, rows, 256)
        made |= {
            f"add_f32_{rows}": (jnp.add, n(*shape), n(*shape)),
            f"add_bf16_{rows}": (jnp.add, bf16(*shape), bf16(*shape)),
            f"convert_f32_bf16_{rows}": (lambda x: x.astype(jnp.bfloat16), n(*shape)),
            f"sum_f32_{rows}": (lambda x: x.sum((2, 3, 4)), n(*shape)),
            f"sum_bf16_{rows}": (lambda x: lax.reduce(x, jnp.bfloat16(0), lax.add, (2, 3, 4)), bf16(*shape)),
            f"sums_of_one_{rows}": (lambda x: tuple((x + c).sum() for c in range(1, 6)), n(*shape)),
            f"adam_{rows}": (adam, n(*shape), n(*shape), n(*shape) ** 2, np.int32(3)),
            f"mix_{rows}": (lambda a, b, w: w * b + (1 - w) * a * a, n(*shape), n(*shape), np.float32(0.1)),
        }
    for name, function in {"exp": jnp.exp, "log": lambda x: jnp.log(jnp.abs(x)), "tanh": jnp.tanh}.items():
        for size in (128, 4096):
            for dtype in ("float32", "float16", "bfloat16"):
                made[f"{name}_{dtype}_{size}"] = (function, n(size).astype(dtype))
    return made


def adam(gradient, mean, square, step):
    mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
    t = step + 1
    update = (mean / (1 - 0.9**t)) / (jnp.sqrt(square / (1 - 0.999**t)) + 1e-8)
    norm = jnp.sqrt((update**2).sum(4, keepdims=True))
    return mean, square, update / jnp.maximum(norm, 1)


def windows():
    made = {
        "window_skips": (lambda x: window(x, (1, 8), (1, 64)), n(128, 128)),
        "window_overlaps": (lambda x: window(x, (1, 32), (1, 8)), n(128, 128)),
        "pad_128": (lambda x: jnp.pad(x, ((0, 0), (1, 1), (2, 2), (2, 2), (0, 0))), n(1, 4, 128, 128, 4)),
        "sum_axis0_1024": (lambda x: x.sum(0), n(1024, 1024)),
        "sum_axis1_1024": (lambda x: x.sum(1), n(1024, 1024)),
        "transposed_copy_512": (lambda x: x.T.copy(), n(512, 1000)),
        "transposed_copy_4096": (lambda x: x.T.copy(), n(4096, 1000)),
        "update_slice_8192": (
            lambda x, y, i: lax.dynamic_update_slice(x, y, (i, i)),
            n(8192, 256),
            n(32, 32),
            np.int32(7),
        ),
        "pool_gradient_512": (jax.grad(lambda x: (pool(x) ** 2).sum()), n(1, 512, 512, 1)),
    }
    for outer, inner in ((1, 32), (32, 1), (32, 8), (32, 32)):
        made[f"window_{outer}x{inner}"] = (
            lambda x, w=(outer, inner): window(x, w, w),
            n(1024, 1024),
        )
    for axis in range(3):
        made[f"concatenate_axis{axis}"] = (
            lambda a, b, axis=axis: jnp.concatenate([a, b], axis),
            n(64, 256, 128),
            n(64, 256, 128),
        )
    return made


def window(x, size, stride):
    return lax.reduce_window(x, 0.0, lax.add, size, stride, "VALID")


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def products():
    made = {}
    dot = lambda a, b, **kinds: lax.dot_general(a, b, **kinds)
    types = {"f32": ("float32", "float32"), "bf16": ("bfloat16", "float32"), "s8": ("int8", "int32"), "s32": ("int32", "int32")}
    for name, (dtype, result) in types.items():
        for batch, size in ((1, 2), (8, 2), (8, 32), (4, 64), (2, 128), (1, 256), (8, 256), (1, 512)):
            operand = whole(dtype, batch, size, size)
            made[f"dot_{name}_b{batch}_{size}"] = (
                lambda a, b, r=result: dot(a, b, dimension_numbers=(((2,), (1,)), ((0,), (0,))), preferred_element_type=r),
                operand,
                operand,
            )
    for rows in (32, 512):
        for columns in (128, 1024):
            made[f"gemv_{rows}x{columns}"] = (lambda a, b: a @ b, n(rows), n(rows, columns))
            made[f"gemv_b8_{rows}x{columns}"] = (
                lambda a, b: jnp.einsum("bi,bij->bj", a, b),
                n(8, rows),
                n(8, rows, columns),
            )
    made["gemv_transposed_1024"] = (lambda a, b: a @ b.T, n(1000), n(1024, 1000))
    gemma = {
        "up": ((11, 1152), (2, 6912, 1152), "btd,cfd->btcf"),
        "query": ((11, 1152), (4, 1152, 256), "btd,ndh->btnh"),
        "mix": ((11, 4, 11), (11, 256), "btns,bsh->btnh"),
        "scores": ((11, 4, 256), (11, 256), "btnh,bsh->btns"),
        "out": ((11, 4, 256), (4, 256, 1152), "btnh,nhd->btd"),
        "down": ((11, 6912), (6912, 1152), "btf,fd->btd"),
        "key_value": ((11, 1152), (2, 1, 1152, 256), "btd,ckdh->ckhbt"),
        "decode_up": ((1, 1152), (2, 6912, 1152), "btd,cfd->btcf"),
        "decode_query": ((1, 1152), (4, 1152, 256), "btd,ndh->btnh"),
        "decode_scores": ((1, 4, 256), (4096, 256), "btnh,bsh->btns"),
        "decode_mix": ((1, 4, 4096), (4096, 256), "btns,bsh->btnh"),
        "decode_down": ((1, 6912), (6912, 1152), "btf,fd->btd"),
        "decode_logits": ((1, 1152), (1152, 32768), "btd,dv->btv"),
    }
    for name, (left, right, equation) in gemma.items():
        left = (1, *left)
        right = (1, *right) if equation.split(",")[1].startswith("bs") else right
        made[f"gemma_{name}"] = (lambda a, b, e=equation: jnp.einsum(e, a, b), bf16(*left), bf16(*right))
    return made


def convolution(x, w, strides, padding, numbers, **others):
    return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=numbers, **others)


def convolutions():
    same = lambda x, w, groups=1: convolution(x, w, (1, 1), "SAME", ("NHWC", "HWIO", "NHWC"), feature_group_count=groups)
    strided = lambda x, w, groups=1: convolution(x, w, (8, 8), [(4, 4)] * 2, ("NCHW", "IOHW", "NCHW"), feature_group_count=groups)
    spread = lambda x, w, groups=1: convolution(
        x, w, (1, 1), [(11, 11)] * 2, ("NCHW", "IOHW", "NCHW"), lhs_dilation=(8, 8), feature_group_count=groups
    )
    return {
        "conv_5x5_1": (same, n(8, 5, 5, 1), n(1, 1, 1, 32)),
        "conv_64x64_4": (same, n(32, 64, 64, 4), n(3, 3, 4, 16)),
        "conv_128x128_16": (same, n(4, 128, 128, 16), n(5, 5, 16, 32)),
        "conv_32x32_96": (same, n(32, 32, 32, 96), n(3, 3, 96, 96)),
        "conv_grouped_16": (lambda x, w: same(x, w, 16), n(1, 45, 45, 1024), n(5, 5, 64, 1024)),
        "conv_depthwise_bf16": (lambda x, w: same(x, w, 256), bf16(1, 56, 56, 256), bf16(3, 3, 1, 256)),
        "conv1d_strided": (
            lambda x, w: convolution(x, w, (64,), [(96, 96)], ("NCW", "IOW", "NCW")),
            n(16, 1, 25600),
            n(1, 129, 256),
        ),
        "conv1d_transposed": (
            lambda x, w: convolution(x, w, (1,), [(159, 159)], ("NCW", "IOW", "NCW"), lhs_dilation=(64,)),
            n(16, 129, 400),
            n(129, 1, 256),
        ),
        "conv1d_transposed_last": (
            lambda x, w: convolution(x, w, (1,), [(159, 159)], ("NWC", "WOI", "NWC"), lhs_dilation=(64,)),
            n(16, 400, 129),
            n(256, 1, 129),
        ),
        "conv2d_strided": (strided, n(16, 1, 160, 160), n(1, 129, 16, 16)),
        "conv2d_transposed": (spread, n(16, 129, 20, 20), n(129, 1, 16, 16)),
        "conv2d_strided_grouped": (lambda x, w: strided(x, w, 32), n(2, 128, 80, 80), n(4, 128, 16, 16)),
        "conv2d_transposed_grouped": (lambda x, w: spread(x, w, 32), n(2, 128, 10, 10), n(4, 128, 16, 16)),
    }


def lookups():
    made = {
        "scatter_1": (lambda x, i, u: x.at[i].set(u), whole("int32", 1 << 18), indices(1 << 18, 1 << 18), whole("int32", 1 << 18)),
        "scatter_2": (lambda x, i, u: x.at[i].set(u), whole("int32", 512, 512), indices(512, 512), whole("int32", 512, 512)),
        "scatter_3": (lambda x, i, u: x.at[i].set(u), whole("int32", 64, 64, 64), indices(64, 64), whole("int32", 64, 64, 64)),
        "scatter_add_500": (lambda x, i, u: x.at[i].add(u), n(500, 64, 8), indices(500, 100), n(100, 64, 8)),
        "topk_bf16_10_of_50000": (lambda x: lax.top_k(x, 10), bf16(1, 50000)),
        "sort_rows_bf16": (lambda x: jnp.sort(x, -1), bf16(1024, 4096)),
        "argsort_rows_bf16": (lambda x: jnp.argsort(x, -1), bf16(1024, 512)),
    }
    for columns, rows in ((3, 4), (128, 32), (512, 128)):
        made[f"gather_{columns}_{rows}"] = (
            lambda x, i: x[i],
            whole("int32", 100, columns),
            indices(100, rows),
        )
    for k, batch, length in ((4, 4, 64), (16, 16, 16), (64, 64, 64)):
        made[f"topk_f32_{k}_{batch}x{length}"] = (lambda x, k=k: lax.top_k(x, k), n(batch, length))
        made[f"topk_bf16_{k}_{batch}x{length}"] = (lambda x, k=k: lax.top_k(x, k), bf16(batch, length))
    return made


def layers():
    def attention(q, k, v):
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), v)

    def layer_norm(x, scale, shift):
        mean, spread = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(spread + 1e-5) * scale + shift

    def slices_in_a_loop(x):
        def step(i, total):
            row = lax.dynamic_slice_in_dim(x, i, 1, 1)
            return total + row

        return lax.fori_loop(0, x.shape[1], step, jnp.zeros_like(x[:, :1]))

    def updates_in_a_loop(x, u):
        def step(i, x):
            row = lax.dynamic_slice_in_dim(x, i, 1, 0)
            return lax.dynamic_update_slice_in_dim(x, row * 0.5 + u, i, 0)

        return lax.fori_loop(0, x.shape[0], step, x)

    heads = bf16(1, 12, 128, 64)
    return {
        "attention_heads_bf16": (attention, heads, heads, heads),
        "attention_heads_f32": (attention, *[x.astype("float32") for x in (heads, heads, heads)]),
        "layer_norm_bf16": (layer_norm, bf16(1, 4096, 768), bf16(768), bf16(768)),
        "layer_norm_f32": (layer_norm, n(1, 4096, 768), n(768), n(768)),
        "mean_axis_bf16": (lambda x: x.mean(1), bf16(1, 4096, 1024)),
        "sum_axis_bf16": (lambda x: x.sum(1), bf16(1, 4096, 1024)),
        "mean_last_bf16": (lambda x: x.mean(2), bf16(1, 4096, 1024)),
        "softmax_bf16": (lambda x: jax.nn.softmax(x, -1), bf16(1, 4096, 1024)),
        "gelu_bf16": (jax.nn.gelu, bf16(1, 4096, 768)),
        "slices_in_a_loop": (slices_in_a_loop, bf16(1, 2048, 768)),
        "updates_in_a_loop": (updates_in_a_loop, n(2048, 768), n(1, 768)),
    }


def pairs():
    """Sums over all pairs of points, and their gradients, as particle methods have them."""

    def gravity(x, m):
        d = x[None] - x[:, None]
        return (m[None, :, None] * d * (((d**2).sum(-1) + 1e-3) ** -1.5)[..., None]).sum(1)

    def biot_savart(x, w):
        d = x[:, None] - x[None]
        return (jnp.cross(w[None], d) / ((d**2).sum(-1) + 1e-2)[..., None] ** 1.5).sum(1)

    def rbf(x, y):
        d = x[:, None] - x[None]
        k = jnp.exp(-0.5 * (d**2).sum(-1))
        return (k[..., None] * -d * y[None, :, None]).sum(1)

    def distances(x):
        return jnp.sqrt(((x[:, None] - x[None]) ** 2).sum(-1) + 1e-6).sum(1)

    def nearest(x):
        return (((x[:, None] - x[None]) ** 2).sum(-1) + 1e9 * jnp.eye(x.shape[0])).min(1)

    d = lambda *shape: n(*shape).astype("float64")
    gradient = lambda f: jax.grad(lambda x, *others: (f(x, *others) ** 2).sum())
    return {
        "pairs_gravity": (gravity, n(2048, 3), np.abs(n(2048))),
        "pairs_gravity_gradient": (gradient(gravity), n(1024, 3), np.abs(n(1024))),
        "pairs_biot_savart": (biot_savart, n(2048, 3), n(2048, 3)[::-1].copy()),
        "pairs_biot_savart_gradient": (gradient(biot_savart), n(1024, 3), n(1024, 3)[::-1].copy()),
        "pairs_rbf": (rbf, n(2048, 3), n(2048)),
        "pairs_rbf_gradient": (gradient(rbf), n(1024, 3), n(1024)),
        "pairs_distances_gradient": (gradient(distances), n(2048, 3)),
        "pairs_nearest_gradient": (gradient(nearest), n(2048, 3)),
        "pairs_gravity_f64": (gravity, d(2048, 3), np.abs(d(2048))),
        "pairs_gravity_gradient_f64": (gradient(gravity), d(1024, 3), np.abs(d(1024))),
        "pairs_biot_savart_f64": (biot_savart, d(2048, 3), d(2048, 3)[::-1].copy()),
        "pairs_biot_savart_gradient_f64": (gradient(biot_savart), d(1024, 3), d(1024, 3)[::-1].copy()),
        "pairs_nearest_gradient_f64": (gradient(nearest), d(2048, 3)),
    }


def programs():
    made = {}
    for part in (elementwise, windows, products, convolutions, lookups, layers, pairs):
        made |= part()
    return made
