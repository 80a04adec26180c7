"""Programs for tpu_agreement.py that its costs were not stated with: functions of JAX by name, each with the
shapes and types of its arguments."""

import jax
import jax.numpy as jnp
from jax import lax, nn

F32, BF16, S8, S32 = jnp.float32, jnp.bfloat16, jnp.int8, jnp.int32


def more_programs():
    """All of them."""
    return {**transformers(), **convolutions(), **loops(), **lookups(), **whole_arrays(), **products(), **few_images(),
            **short_rows()}


def scaled(x, gain):
    return x * lax.rsqrt((x.astype(F32) ** 2).mean(-1, keepdims=True) + 1e-6).astype(x.dtype) * gain


def transformer(heads, causal):
    """A block of attention and a network of two layers."""

    def attention(x, wq, wk, wv, wo):
        batch, length, _ = x.shape

        def project(w):
            return (x @ w).reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)

        q, k, v = project(wq), project(wk), project(wv)
        scores = q @ k.transpose(0, 1, 3, 2) / q.shape[-1] ** 0.5
        if causal:
            scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
        p = nn.softmax(scores.astype(F32), -1).astype(x.dtype)
        return (p @ v).transpose(0, 2, 1, 3).reshape(batch, length, -1) @ wo

    def block(x, gain, wq, wk, wv, wo, w1, w2):
        x = x + attention(scaled(x, gain), wq, wk, wv, wo)
        return x + nn.gelu(scaled(x, gain) @ w1) @ w2

    return block


def transformer_shapes(batch, length, width, inner, kind):
    weights = [((width, width), kind)] * 4 + [((width, inner), kind), ((inner, width), kind)]
    return [((batch, length, width), kind), ((width,), kind), *weights]


def transformers():
    def training(heads):
        block = transformer(heads, True)
        loss = lambda *arguments: (block(*arguments).astype(F32) ** 2).mean()
        return jax.grad(loss, tuple(range(1, 8)))

    def rotated(x):
        length, size = x.shape[1], x.shape[-1]
        angle = jnp.arange(length)[:, None] / 10000 ** (jnp.arange(0, size, 2) / size)
        cos, sin = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
        a, b = x[..., : size // 2], x[..., size // 2:]
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def rotary(q, k, v):
        p = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", rotated(q), rotated(k)), -1)
        return jnp.einsum("bhqk,bkhd->bqhd", p, v)

    def shared_keys(x, wq, wk, wv, wo):
        batch, length, _ = x.shape
        q = (x @ wq).reshape(batch, length, 4, 2, 64)
        k, v = ((x @ w).reshape(batch, length, 4, 64) for w in (wk, wv))
        scores = jnp.einsum("bqgrd,bkgd->bgrqk", q, k) / 8
        scores = jnp.where(jnp.arange(length)[:, None] >= jnp.arange(length), scores, -1e9)
        return x + jnp.einsum("bgrqk,bkgd->bqgrd", nn.softmax(scores, -1), v).reshape(batch, length, -1) @ wo

    def across(x, y, wq, wkv, wo):
        batch, length, width = x.shape
        q = (x @ wq).reshape(batch, length, 6, 64)
        k, v = jnp.split((y @ wkv).reshape(batch, y.shape[1], 6, 128), 2, -1)
        p = nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k), -1)
        return jnp.einsum("bhqk,bkhd->bqhd", p, v).reshape(batch, length, width) @ wo

    def step_of_cache(keys, values, q, k, v, n):
        keys = lax.dynamic_update_slice(keys, k[:, :, None], (0, 0, n, 0))
        values = lax.dynamic_update_slice(values, v[:, :, None], (0, 0, n, 0))
        scores = jnp.where(jnp.arange(keys.shape[2]) <= n, jnp.einsum("bhd,bhsd->bhs", q, keys), -1e9)
        return jnp.einsum("bhs,bhsd->bhd", nn.softmax(scores, -1), values), keys, values

    f32, bf16 = F32, BF16
    return {
        "block_4_heads": (transformer(4, True), transformer_shapes(2, 128, 256, 1024, f32)),
        "block_16_heads": (transformer(16, True), transformer_shapes(4, 512, 1024, 4096, bf16)),
        "block_odd": (transformer(6, False), transformer_shapes(3, 77, 384, 1000, bf16)),
        "block_1_head": (transformer(1, False), transformer_shapes(1, 200, 128, 512, f32)),
        "block_training": (training(4), transformer_shapes(2, 128, 256, 1024, f32)),
        "block_training_bf16": (training(8), transformer_shapes(2, 256, 512, 2048, bf16)),
        "rotary": (rotary, [((2, 160, 4, 64), f32)] * 3),
        "shared_keys": (shared_keys, [((2, 192, 512), f32), ((512, 512), f32), ((512, 256), f32), ((512, 256), f32),
                                      ((512, 512), f32)]),
        "across": (across, [((4, 100, 384), bf16), ((4, 250, 384), bf16), ((384, 384), bf16), ((384, 768), bf16),
                            ((384, 384), bf16)]),
        "step_of_cache": (step_of_cache, [((8, 16, 1024, 64), bf16)] * 2 + [((8, 16, 64), bf16)] * 3 + [((), S32)]),
        "gated": (lambda x, a, b, c: (nn.silu(x @ a) * (x @ b)) @ c,
                  [((512, 768), bf16), ((768, 2048), bf16), ((768, 2048), bf16), ((2048, 768), bf16)]),
    }


def convolution(x, w, stride=1, padding="SAME", numbers=("NHWC", "HWIO", "NHWC"), groups=1, holes=1):
    return lax.conv_general_dilated(x, w, (stride, stride), padding, rhs_dilation=(holes, holes),
                                    dimension_numbers=numbers, feature_group_count=groups)


def convolutions():
    nchw = ("NCHW", "OIHW", "NCHW")

    def bottleneck(x, a, b, c, gain):
        h = nn.relu(convolution(x, a) * gain[:64])
        h = nn.relu(convolution(h, b) * gain[:64])
        return nn.relu(x + convolution(h, c) * gain)

    def loss(*arguments):
        return bottleneck(*arguments).astype(F32).sum()

    def excited(x, w, a, b):
        h = nn.relu(convolution(x, w))
        return x + h * nn.sigmoid(nn.relu(h.mean((1, 2)) @ a) @ b)[:, None, None]

    def network(weights, x, labels):
        h = nn.relu(convolution(x, weights[0], numbers=nchw))
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        h = nn.relu(convolution(h, weights[1], numbers=nchw)).mean((2, 3)) @ weights[2]
        return -(nn.log_softmax(h) * nn.one_hot(labels, 10)).sum()

    def descent(a, b, c, x, labels):
        value, slopes = jax.value_and_grad(network)((a, b, c), x, labels)
        return value, *[weight - 0.1 * slope for weight, slope in zip((a, b, c), slopes)]

    f32, bf16 = F32, BF16
    blocks = [((8, 28, 28, 256), bf16), ((1, 1, 256, 64), bf16), ((3, 3, 64, 64), bf16), ((1, 1, 64, 256), bf16),
              ((256,), bf16)]
    return {
        "bottleneck": (bottleneck, blocks),
        "bottleneck_training": (jax.grad(loss, (1, 2, 3, 4)), blocks),
        "convolution_nchw": (lambda x, w: nn.relu(convolution(x, w, numbers=nchw)),
                             [((4, 32, 28, 28), f32), ((64, 32, 3, 3), f32)]),
        "stride_2": (lambda x, w: nn.relu(convolution(x, w, 2)), [((4, 128, 128, 3), f32), ((7, 7, 3, 64), f32)]),
        "separable": (lambda x, d, p: nn.relu(convolution(convolution(x, d, groups=64), p)),
                      [((8, 32, 32, 64), f32), ((3, 3, 1, 64), f32), ((1, 1, 64, 128), f32)]),
        "grouped": (lambda x, w: convolution(x, w, groups=4), [((4, 28, 28, 64), bf16), ((3, 3, 16, 128), bf16)]),
        "dilated": (lambda x, w: convolution(x, w, holes=2), [((2, 40, 40, 32), f32), ((3, 3, 32, 32), f32)]),
        "transposed": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
                       [((2, 16, 16, 128), f32), ((4, 4, 128, 64), f32)]),
        "excited": (excited, [((16, 16, 16, 128), bf16), ((3, 3, 128, 128), bf16), ((128, 16), bf16),
                              ((16, 128), bf16)]),
        "descent_nchw": (descent, [((16, 1, 5, 5), f32), ((32, 16, 3, 3), f32), ((32, 10), f32),
                                   ((64, 1, 28, 28), f32), ((64,), S32)]),
    }


def loops():
    def lstm(x, h, c, wx, wh, bias):
        def cell(state, now):
            h, c = state
            i, f, g, o = jnp.split(now @ wx + h @ wh + bias, 4, -1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
            h = nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return lax.scan(cell, (h, c), x)

    def decoding(x, keys, values, wq, wk, wv, wo, n):
        def step(state, i):
            x, keys, values = state
            q, k, v = ((x @ w).reshape(-1, 8, 64) for w in (wq, wk, wv))
            keys = lax.dynamic_update_slice(keys, k[:, None], (0, n + i, 0, 0))
            values = lax.dynamic_update_slice(values, v[:, None], (0, n + i, 0, 0))
            scores = jnp.einsum("bhd,bshd->bhs", q, keys)
            scores = jnp.where(jnp.arange(keys.shape[1]) <= n + i, scores, -1e9)
            x = x + jnp.einsum("bhs,bshd->bhd", nn.softmax(scores, -1), values).reshape(-1, 512) @ wo
            return (x, keys, values), x

        return lax.scan(step, (x, keys, values), jnp.arange(16))

    def layers(x, first, second):
        return lax.scan(lambda x, w: (x + nn.gelu(x @ w[0]) @ w[1], None), x, (first, second))[0]

    def weights_in_turn(x, *weights):
        def body(_, x):
            for weight in weights:
                x = jnp.tanh(x @ weight)
            return x

        return lax.fori_loop(0, 10, body, x)

    def heat(u):
        def step(_, u):
            around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
            return u.at[1:-1, 1:-1].add(0.1 * (around - 4 * u[1:-1, 1:-1]))

        return lax.fori_loop(0, 50, step, u)

    def viterbi(emissions, transitions):
        def step(scores, now):
            each = scores[:, :, None] + transitions
            return each.max(1) + now, each.argmax(1)

        return lax.scan(step, emissions[0], emissions[1:])

    f32, bf16 = F32, BF16
    cells = [((60, 32, 128), f32), ((32, 256), f32), ((32, 256), f32), ((128, 1024), f32), ((256, 1024), f32),
             ((1024,), f32)]
    return {
        "lstm": (lstm, cells),
        "lstm_training": (jax.grad(lambda *a: (lstm(*a)[1] ** 2).sum(), (3, 4, 5)), cells),
        "decoding": (decoding, [((4, 512), f32)] + [((4, 256, 8, 64), f32)] * 2 + [((512, 512), f32)] * 4
                     + [((), S32)]),
        "layers": (layers, [((128, 256), bf16), ((4, 256, 512), bf16), ((4, 512, 256), bf16)]),
        "weights_in_turn": (weights_in_turn, [((2048, 4096), bf16)] + [((4096, 4096), bf16)] * 4),
        "heat": (heat, [((500, 300), f32)]),
        "viterbi": (viterbi, [((50, 16, 40), f32), ((40, 40), f32)]),
        "power": (lambda a, v: lax.fori_loop(0, 20, lambda _, v: a @ v / jnp.linalg.norm(a @ v), v),
                  [((1024, 1024), f32), ((1024,), f32)]),
    }


def lookups():
    def gradient(table, i, u):
        return jax.grad(lambda table: (table[i] * u).sum())(table)

    f32 = F32
    return {
        "embedding_sum": (lambda t, i: t[i].sum(1), [((10000, 128), f32), ((64, 20), S32)]),
        "embedding_gradient": (gradient, [((5000, 256), f32), ((8, 64), S32), ((8, 64, 256), f32)]),
        "scatter_add": (lambda t, i, u: t.at[i].add(u), [((5000, 64), f32), ((300,), S32), ((300, 64), f32)]),
        "scatter_points": (lambda x, i, j, u: x.at[i, j].max(u), [((200, 300), f32)] + [((500,), S32)] * 2
                           + [((500,), f32)]),
        "along_axis": (lambda x, i: jnp.take_along_axis(x, i, 1), [((128, 1000), f32), ((128, 50), S32)]),
        "rows_by_key": (lambda k, v: v[jnp.argsort(k)], [((3000,), f32), ((3000, 64), f32)]),
        "sort_rows": (lambda x: jnp.sort(x, 0), [((500, 64), f32)]),
        "top": (lambda x: lax.top_k(x, 8), [((32, 5000), f32)]),
        "top_of_router": (lambda x, w: lax.top_k(nn.softmax(x @ w), 2), [((1024, 256), f32), ((256, 16), f32)]),
    }


def whole_arrays():
    f32, bf16 = F32, BF16
    return {
        "cumulative": (lambda x: (jnp.cumsum(x, 0), jnp.cumprod(x, 1), lax.cummax(x, 2)), [((30, 40, 200), f32)]),
        "reductions": (lambda x: (x.sum((0, 2)), x.max((1, 3)), x.min((0, 1, 3)), x.sum(1).mean(-1)),
                       [((6, 10, 130, 50), f32)]),
        "softmax_middle": (lambda x: nn.softmax(x, 1) * 2 + nn.log_softmax(x, 0), [((40, 60, 80), bf16)]),
        "fft": (lambda x: jnp.abs(jnp.fft.fft2(x)), [((8, 128, 128), f32)]),
        "cholesky": (lambda a, b: jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(a), True), b),
                     [((128, 128), f32), ((128, 8), f32)]),
        "turned": (lambda x, y: (x.transpose(2, 0, 3, 1) + 1, y.T.reshape(7, -1) * 2, x.reshape(15, 77) * 3),
                   [((3, 5, 7, 11), f32), ((21, 35), f32)]),
        "vectors": (lambda x, y: (jnp.cumsum(x * y), x[::-1] + y, jnp.dot(x, y)), [((10007,), f32)] * 2),
        "large": (lambda x: (jnp.tanh(x) + 1, jnp.exp(x)), [((8192, 8192), f32)]),
        "small": (lambda a, b: jnp.tanh(a @ b) + 1, [((2, 3), f32), ((3, 5), f32)]),
        "mixed_types": (lambda m, x, i: (jnp.where(m, x, 0).astype(f32), (i * 3).astype(jnp.uint8), m & (i > 5)),
                        [((100, 300), jnp.bool_), ((100, 300), bf16), ((100, 300), S32)]),
        "image": (lambda x: jnp.clip((x.astype(f32) - 128) * 1.5 + 128, 0, 255).astype(jnp.uint8),
                  [((4, 300, 400, 3), jnp.uint8)]),
    }


def products():
    def quantised(x, w, rows, columns):
        y = lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=S32)
        return (y.astype(F32) * rows * columns).astype(BF16)

    def experts(x, gate, a, b):
        h = nn.relu(jnp.einsum("td,edf->etf", x, a))
        return jnp.einsum("te,etd->td", nn.softmax(x @ gate), jnp.einsum("etf,efd->etd", h, b))

    f32, bf16 = F32, BF16
    return {
        "quantised": (quantised, [((256, 1024), S8), ((1024, 512), S8), ((256, 1), f32), ((512,), f32)]),
        "from_bytes": (lambda x, w, s: x @ (w.astype(bf16) * s), [((64, 1024), bf16), ((1024, 2048), S8), ((2048,), bf16)]),
        "experts": (experts, [((256, 128), f32), ((128, 8), f32), ((8, 128, 512), f32), ((8, 512, 128), f32)]),
        "three_sums": (lambda a, b, c: (jnp.einsum("abc,cd->abd", a, b), jnp.einsum("abc,abd->cd", a, a),
                                        jnp.einsum("abc,bd->acd", a, c)),
                       [((20, 30, 40), f32), ((40, 50), f32), ((30, 60), f32)]),
        "bilinear": (lambda x, w, y: jnp.einsum("bi,ijk,bj->bk", x, w, y),
                     [((100, 60), f32), ((60, 70, 80), f32), ((100, 70), f32)]),
        "large_product": (lambda a, b, c: nn.relu(a @ b) @ c,
                          [((8192, 4096), bf16), ((4096, 8192), bf16), ((8192, 4096), bf16)]),
        "over_all_classes": (lambda x, w: nn.softmax(x @ w, -1), [((2048, 1024), bf16), ((1024, 50000), bf16)]),
    }


def few_images():
    """Convolutions of fewer than eight images, which are cut into pieces, and pooling."""

    def network_of_scales(x, a, b, c, d):
        h = nn.relu(convolution(x, a))
        low = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        low = nn.relu(convolution(low, b))
        up = jax.image.resize(low, (*h.shape[:3], low.shape[3]), "nearest")
        return convolution(jnp.concatenate([h, nn.relu(convolution(up, c))], -1), d)

    def pooled(x):
        return (lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") ** 2).sum()

    def volume(x, w):
        return nn.relu(lax.conv_general_dilated(x, w, (1, 1, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")))

    f32, bf16 = F32, BF16
    scales = [((2, 48, 48, 4), f32), ((3, 3, 4, 24), f32), ((3, 3, 24, 48), f32), ((3, 3, 48, 24), f32),
              ((1, 1, 48, 3), f32)]
    return {
        "five_images": (lambda x, w, b: nn.relu(convolution(x, w) + b),
                        [((5, 30, 30, 17), f32), ((3, 3, 17, 45), f32), ((45,), f32)]),
        "one_image": (lambda x, w, v: convolution(nn.relu(convolution(x, w)), v),
                      [((1, 64, 64, 32), bf16), ((3, 3, 32, 64), bf16), ((1, 1, 64, 32), bf16)]),
        "volume": (volume, [((2, 12, 20, 20, 8), f32), ((3, 3, 3, 8, 32), f32)]),
        "scales": (network_of_scales, scales),
        "scales_training": (jax.grad(lambda *a: (network_of_scales(*a) ** 2).sum(), (0, 1, 2, 3, 4)), scales),
        "pooled_gradient": (jax.grad(pooled), [((3, 33, 33, 20), f32)]),
    }


def short_rows():
    """Sorts, slices at indices and products where rows are short or few."""

    def chosen_experts(x, router, first, second):
        share, which = lax.top_k(nn.softmax(x @ router), 2)
        mask = (nn.one_hot(which, router.shape[1]) * share[..., None]).sum(1)
        h = nn.gelu(jnp.einsum("td,edf->tef", x, first))
        return jnp.einsum("tef,efd,te->td", h, second, mask)

    f32, bf16 = F32, BF16
    return {
        "sort_short": (lambda x: jnp.sort(x, 1)[:, ::-1], [((6, 100, 40), bf16)]),
        "median": (lambda x: jnp.median(x, 0), [((31, 20, 100), f32)]),
        "chosen_experts": (chosen_experts, [((200, 128), f32), ((128, 4), f32), ((4, 128, 256), f32),
                                            ((4, 256, 128), f32)]),
        "rows_of_several": (lambda x, i: jnp.take(x, i, 1), [((5, 200, 48), f32), ((31,), S32)]),
        "add_to_rows_of_several": (lambda x, i, u: x.at[:, i].add(u),
                                   [((4, 300, 40), f32), ((50,), S32), ((4, 50, 40), f32)]),
        "small_products": (lambda a, b, c: (a @ b + c) * 2,
                           [((64, 16, 8), bf16), ((64, 8, 24), bf16), ((24,), bf16)]),
        "batch_inside": (lambda a, b: jnp.einsum("abc,cbd->dab", a, b), [((7, 40, 60), f32), ((60, 40, 30), f32)]),
    }
