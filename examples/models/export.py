"""Makes the programs of this folder: NAME.hlo and NAME.npz for each function below.

    python examples/models/export.py [NAME ...]

needs `jax` and `numpy` (any CPU build; the first line of each .hlo says which version
made it). NAME.hlo is the HLO text before any optimisation of XLA's; NAME.npz holds the
inputs in0, in1, ... by parameter number and the results out0, out1, ... by flattened
result, as computed by JAX on the CPU. bf16 travels as the uint16 of its bits.

Inputs come from a generator seeded by the program's name, so that the same versions make
the same files. Programs are small enough for a person to read and under 100 KB each.

symbolic_* programs have a size that is known only at run time. JAX cannot print these as
HLO text (its dynamic broadcasts have no form there), so they are lowered with a batch of
BATCH, a number that occurs for no other reason, and that number is then replaced by `?`
in the text. Their npz holds a run with a batch of 3.
"""

import pathlib
import sys
import zipfile
import zlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

FOLDER = pathlib.Path(__file__).parent
BATCH = 7919

PROGRAMS = {}


def program(*inputs, platform="cpu"):
    """Declares a program with a function of the generator for each input.

    `platform` is the machine that JAX lowers for: on a CPU it calls LAPACK where on a
    TPU it leaves an operation of HLO.
    """

    def declare(function):
        PROGRAMS[function.__name__] = (function, inputs, platform)
        return function

    return declare


def normal(*shape, dtype=np.float32, scale=1.0):
    return lambda rng: (scale * rng.standard_normal(shape)).astype(dtype)


def bf16(*shape, scale=1.0):
    return normal(*shape, dtype=jnp.bfloat16, scale=scale)


def integers(low, high, *shape, dtype=np.int32):
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


@program(normal(16, 100))
def softmax(x):
    return jax.nn.softmax(x, axis=-1)


@program(normal(8, 12, 64), normal(64), normal(64))
def layernorm(x, gamma, beta):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * gamma + beta


@program(normal(1, 32, 2, 16), normal(1, 32, 2, 16), normal(1, 32, 2, 16))
def attention(q, k, v):
    """Causal: a position attends to itself and to those before it."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    length = q.shape[1]
    causal = jnp.arange(length)[:, None] >= jnp.arange(length)[None, :]
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


@program(
    bf16(8, 32), bf16(32), bf16(32, 48, scale=0.2), bf16(32, 48, scale=0.2), bf16(48, 32, scale=0.2)
)
def swiglu_bf16(x, gamma, gate, up, down):
    """The feed-forward half of a language model's layer."""
    wide = x.astype(jnp.float32)
    normed = wide * lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
    y = normed.astype(jnp.bfloat16) * gamma
    return x + (jax.nn.silu(y @ gate) * (y @ up)) @ down


@program(
    normal(16, 12),
    integers(0, 5, 16),
    normal(12, 24, scale=0.3),
    normal(24, scale=0.1),
    normal(24, 5, scale=0.3),
    normal(5, scale=0.1),
)
def mlp_train_step(x, labels, w1, b1, w2, b2):
    """Cross-entropy, its gradient, and one step of gradient descent."""

    def loss_of(parameters):
        w1, b1, w2, b2 = parameters
        logits = jax.nn.gelu(x @ w1 + b1) @ w2 + b2
        picked = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
        return (jax.nn.logsumexp(logits, axis=1) - picked).mean()

    parameters = (w1, b1, w2, b2)
    loss, gradients = jax.value_and_grad(loss_of)(parameters)
    return loss, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)


@program(
    normal(2, 14, 14, 1),
    normal(3, 3, 1, 8, scale=0.3),
    normal(8, scale=0.1),
    normal(3, 3, 8, 12, scale=0.1),
    normal(108, 10, scale=0.1),
)
def conv_net(images, kernel1, bias1, kernel2, dense):
    numbers = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(images, kernel1, (1, 1), "SAME", dimension_numbers=numbers)
    x = jax.nn.relu(x + bias1)
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = lax.conv_general_dilated(x, kernel2, (2, 2), "VALID", dimension_numbers=numbers)
    return jax.nn.log_softmax(jax.nn.relu(x).reshape(len(images), -1) @ dense)


@program(
    normal(10, 4, 12),
    normal(4, 16),
    normal(4, 16),
    normal(12, 64, scale=0.3),
    normal(16, 64, scale=0.3),
    normal(64, scale=0.1),
)
def lstm(sequence, hidden, cell, w_input, w_hidden, bias):
    def step(state, x):
        hidden, cell = state
        gates = x @ w_input + hidden @ w_hidden + bias
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    return lax.scan(step, (hidden, cell), sequence)


@program(
    normal(2, 32),
    normal(2, 24, 4, 8),
    normal(2, 24, 4, 8),
    integers(9, 10),
    normal(32, 96, scale=0.2),
    normal(32, 32, scale=0.2),
)
def kv_cache_decode(x, keys, values, position, w_qkv, w_out):
    """One token of a language model: the caches grow by one position."""
    q, k, v = jnp.split(x @ w_qkv, 3, axis=-1)
    q, k, v = (array.reshape(2, 1, 4, 8) for array in (q, k, v))
    keys = lax.dynamic_update_slice(keys, k, (0, position, 0, 0))
    values = lax.dynamic_update_slice(values, v, (0, position, 0, 0))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, keys) / np.sqrt(8)
    seen = jnp.arange(keys.shape[1]) <= position
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1)
    out = jnp.einsum("bhqk,bkhd->bqhd", weights, values).reshape(2, 32)
    return x + out @ w_out, keys, values


@program(normal(120, 3), normal(6, 3))
def kmeans_step(points, centres):
    distances = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(-1)
    nearest = jnp.argmin(distances, axis=1)
    sums = jnp.zeros_like(centres).at[nearest].add(points)
    counts = jnp.zeros(len(centres)).at[nearest].add(1.0)
    return sums / jnp.maximum(counts, 1.0)[:, None], nearest


@program(normal(4, 200), integers(0, 2**32, 2, dtype=np.uint32))
def top_k_sample(logits, key):
    """The five likeliest tokens, and one drawn from them."""
    best, tokens = lax.top_k(logits, 5)
    drawn = jax.random.categorical(key, best / 0.8, axis=-1)
    return jnp.take_along_axis(tokens, drawn[:, None], axis=1)[:, 0], best, tokens


@program(integers(0, 2**32, 2, dtype=np.uint32))
def random_normal(key):
    """Threefry bits, and the inverse of the error function."""
    return jax.random.normal(key, (20, 30))


@program(normal(64, 8, scale=0.2), normal(64, 8))
def linear_recurrence(decay, x):
    """h[t] = a[t] h[t-1] + x[t], as an associative scan; and a plain running sum."""
    a = jax.nn.sigmoid(decay)

    def join(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    _, h = lax.associative_scan(join, (a, x))
    return h, jnp.cumsum(x, axis=0)


@program(
    integers(-127, 128, 24, 48, dtype=np.int8),
    integers(-127, 128, 48, 40, dtype=np.int8),
    lambda rng: rng.uniform(0.01, 0.1, (24, 1)).astype(np.float32),
    lambda rng: rng.uniform(0.01, 0.1, (1, 40)).astype(np.float32),
)
def int8_matmul(a, b, scale_a, scale_b):
    """Products of quantised numbers are summed exactly, then scaled back."""
    sums = lax.dot(a, b, preferred_element_type=jnp.int32)
    return sums.astype(jnp.float32) * scale_a * scale_b, sums


@program(normal(4, 128), normal(16))
def fft_filter(signal, response):
    """Circular convolution through the frequency domain."""
    spectrum = jnp.fft.rfft(signal) * jnp.fft.rfft(response, n=128)
    return jnp.fft.irfft(spectrum, n=128), jnp.abs(spectrum)


@program(normal(24, 24), normal(24, 3), platform="tpu")
def cholesky_solve(a, b):
    """A positive definite system, as in least squares and Gaussian processes."""
    factor = jnp.linalg.cholesky(a @ a.T + 24.0 * jnp.eye(24, dtype=a.dtype))
    return jax.scipy.linalg.cho_solve((factor, True), b), factor


def symbolic(*shape):
    """An input whose batch is BATCH in the program and 3 in its run."""
    return lambda rng, batch: rng.standard_normal((batch, *shape)).astype(np.float32)


@program(symbolic(12), normal(12, 20, scale=0.3), normal(20, scale=0.1), normal(20, 4, scale=0.3))
def symbolic_mlp(x, w1, b1, w2):
    return jax.nn.softmax(jnp.tanh(x @ w1 + b1) @ w2)


@program(symbolic(6, 8), symbolic(6, 8), symbolic(6, 8))
def symbolic_attention(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k) / np.sqrt(8), axis=-1)
    return jnp.einsum("bqk,bkd->bqd", weights, v)


def make_inputs(name, inputs, batch):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    takes_batch = lambda make: make.__code__.co_argcount == 2
    return [make(rng, batch) if takes_batch(make) else make(rng) for make in inputs]


def bits(array):
    array = np.asarray(array)
    return array.view(np.uint16) if array.dtype == jnp.bfloat16 else array


def write_npz(path, arrays):
    """Like np.savez_compressed, but the same arrays give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w") as file:
                np.lib.format.write_array(file, array, version=(1, 0))


def export(name):
    function, inputs, platform = PROGRAMS[name]
    is_symbolic = name.startswith("symbolic_")
    shapes = make_inputs(name, inputs, BATCH)
    traced = jax.jit(function, keep_unused=True).trace(*shapes)
    lowered = traced.lower(lowering_platforms=(platform,))
    hlo = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    if is_symbolic:
        hlo = hlo.replace(str(BATCH), "?")
    text = f"// {name}, exported from jax {jax.__version__} by export.py\n{hlo.rstrip()}\n"
    (FOLDER / f"{name}.hlo").write_text(text)

    given = make_inputs(name, inputs, 3) if is_symbolic else shapes
    results = jax.tree.leaves(jax.jit(function)(*given))
    arrays = {f"in{i}": bits(x) for i, x in enumerate(given)}
    arrays |= {f"out{i}": bits(x) for i, x in enumerate(results)}
    path = FOLDER / f"{name}.npz"
    write_npz(path, arrays)
    print(f"{name:20} {len(text):7} bytes of HLO, {path.stat().st_size:7} of arrays")


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    for name in sys.argv[1:] or PROGRAMS:
        export(name)
