"""Programs for eight devices, as users of JAX write them: data, tensor, sequence, expert and pipeline
parallel, optimizers with sharded state, stencils, and each collective by itself.

`PROGRAMS` maps a name to a function of eight devices that gives a jitted function and its arguments,
which lie where the program wants them. Numbers are drawn from a fixed seed.
"""

import functools
import zlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

PROGRAMS = {}


def shard_map(f, mesh, in_specs, out_specs, **more):
    return jax.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **more)


def program(*axes):
    """Registers a program over a mesh of named axes: ("x", 8) or ("x", 2), ("y", 4)."""

    def register(make):
        def of_devices(devices):
            names, sizes = zip(*axes)
            mesh = Mesh(np.array(devices[: int(np.prod(sizes))]).reshape(sizes), names)
            draw = Draw(mesh, zlib.crc32(make.__name__.encode()))
            return make(mesh, draw)

        PROGRAMS[make.__name__] = of_devices
        return make

    return register


class Draw:
    """Arrays of random numbers, placed on a mesh."""

    def __init__(self, mesh, seed):
        self.mesh, self.generator = mesh, np.random.default_rng(seed)

    def __call__(self, spec, *dims, scale=1.0):
        values = self.generator.standard_normal(dims) * scale
        return self.put(values.astype(np.float32), spec)

    def integers(self, spec, high, *dims):
        return self.put(self.generator.integers(0, high, dims, dtype=np.int32), spec)

    def put(self, value, spec):
        return jax.device_put(value, NamedSharding(self.mesh, spec))


def constrained(x, mesh, *spec):
    return lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


X8 = ("x", 8)
X2Y4 = (("x", 2), ("y", 4))
X4Y2 = (("x", 4), ("y", 2))


# Data parallel.


def mlp_loss(weights, x, y):
    for w in weights[:-1]:
        x = jnp.tanh(x @ w)
    return jnp.mean((x @ weights[-1] - y) ** 2)


@program(X8)
def data_parallel_mlp_step(mesh, draw):
    weights = [draw(P(), 16, 32, scale=0.2), draw(P(), 32, 4, scale=0.2)]

    @jax.jit
    def step(weights, x, y):
        loss, gradients = jax.value_and_grad(mlp_loss)(weights, x, y)
        return loss, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    return step, (weights, draw(P("x"), 64, 16), draw(P("x"), 64, 4))


@program(X8)
def data_parallel_shard_map(mesh, draw):
    weights = [draw(P(), 16, 32, scale=0.2), draw(P(), 32, 4, scale=0.2)]

    def step(weights, x, y):
        loss = lambda weights: lax.pmean(mlp_loss(weights, x, y), "x")
        value, gradients = jax.value_and_grad(loss)(weights)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    step = shard_map(step, mesh, (P(), P("x"), P("x")), P())
    return jax.jit(step), (weights, draw(P("x"), 64, 16), draw(P("x"), 64, 4))


@program(X8)
def data_parallel_softmax_classifier(mesh, draw):
    @jax.jit
    def step(w, b, x, labels):
        def loss(w, b):
            logits = jax.nn.log_softmax(x @ w + b)
            return -jnp.mean(jnp.take_along_axis(logits, labels[:, None], 1))

        return jax.value_and_grad(loss, (0, 1))(w, b)

    labels = draw.integers(P("x"), 10, 64)
    return step, (draw(P(), 20, 10), draw(P(), 10), draw(P("x"), 64, 20), labels)


@program(X8)
def data_parallel_batch_norm(mesh, draw):
    @jax.jit
    def normalize(x, scale):
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * lax.rsqrt(variance + 1e-5) * scale, mean, variance

    return normalize, (draw(P("x"), 16, 6, 6, 8), draw(P(), 8))


@program(X8)
def data_parallel_convolution(mesh, draw):
    @jax.jit
    def gradients(kernel, x):
        def loss(kernel):
            y = lax.conv_general_dilated(x, kernel, (1, 1), "SAME",
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))
            return jnp.mean(jax.nn.relu(y) ** 2)

        return jax.value_and_grad(loss)(kernel)

    return gradients, (draw(P(), 3, 3, 4, 8), draw(P("x"), 16, 8, 8, 4))


@program(X8)
def gradient_accumulation(mesh, draw):
    @jax.jit
    def accumulated(w, xs, ys):
        def add(total, batch):
            x, y = batch
            return total + jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w), None

        return lax.scan(add, jnp.zeros_like(w), (xs, ys))[0]

    return accumulated, (draw(P(), 16, 4), draw(P(None, "x"), 3, 32, 16),
                         draw(P(None, "x"), 3, 32, 4))


# Tensor parallel: products sharded in all ways.


def product(x, w):
    return x @ w


@program(X8)
def matmul_rows(mesh, draw):
    return jax.jit(product), (draw(P("x"), 64, 32), draw(P(), 32, 48))


@program(X8)
def matmul_columns(mesh, draw):
    return jax.jit(product), (draw(P(), 64, 32), draw(P(None, "x"), 32, 48))


@program(X8)
def matmul_contracted(mesh, draw):
    return jax.jit(product), (draw(P(None, "x"), 64, 32), draw(P("x"), 32, 48))


@program(*X2Y4)
def matmul_rows_and_columns(mesh, draw):
    return jax.jit(product), (draw(P("x", None), 64, 32), draw(P(None, "y"), 32, 48))


@program(*X2Y4)
def matmul_rows_and_contracted(mesh, draw):
    out = NamedSharding(mesh, P("x", "y"))
    return jax.jit(product, out_shardings=out), (draw(P("x", "y"), 64, 32), draw(P("y"), 32, 48))


@program(X8)
def matmul_mixed_operands(mesh, draw):
    return jax.jit(product), (draw(P("x"), 64, 32), draw(P("x"), 32, 48))


@program(X8)
def matmul_psum(mesh, draw):
    f = lambda x, w: lax.psum(x @ w, "x")
    f = shard_map(f, mesh, (P(None, "x"), P("x")), P())
    return jax.jit(f), (draw(P(None, "x"), 64, 32), draw(P("x"), 32, 48))


@program(X8)
def matmul_psum_scatter(mesh, draw):
    f = lambda x, w: lax.psum_scatter(x @ w, "x", scatter_dimension=0, tiled=True)
    f = shard_map(f, mesh, (P(None, "x"), P("x")), P("x"))
    return jax.jit(f), (draw(P(None, "x"), 64, 32), draw(P("x"), 32, 48))


@program(X8)
def matmul_all_gather(mesh, draw):
    f = lambda x, w: lax.all_gather(x, "x", tiled=True) @ w
    f = shard_map(f, mesh, (P("x"), P(None, "x")), P(None, "x"))
    return jax.jit(f), (draw(P("x"), 64, 32), draw(P(None, "x"), 32, 48))


@program(X8)
def matmul_around_a_ring(mesh, draw):
    def f(x, w):
        size, own = lax.axis_size("x"), lax.axis_index("x")
        rows = x.shape[0]

        def step(i, state):
            x, result = state
            at = (own + i) % size * rows
            result = lax.dynamic_update_slice(result, x @ w, (at, 0))
            return lax.ppermute(x, "x", [((j + 1) % size, j) for j in range(size)]), result

        begin = lax.pcast(jnp.zeros((rows * size, w.shape[1])), ("x",), to="varying")
        return lax.fori_loop(0, size, step, (x, begin))[1]

    f = shard_map(f, mesh, (P("x"), P(None, "x")), P(None, "x"))
    return jax.jit(f), (draw(P("x"), 64, 32), draw(P(None, "x"), 32, 48))


@program(*X2Y4)
def tensor_parallel_mlp(mesh, draw):
    @jax.jit
    def f(x, up, down):
        hidden = constrained(jax.nn.gelu(x @ up), mesh, "x", "y")
        return constrained(hidden @ down, mesh, "x", None)

    return f, (draw(P("x"), 32, 16), draw(P(None, "y"), 16, 64), draw(P("y"), 64, 16))


@program(*X2Y4)
def tensor_parallel_mlp_gradient(mesh, draw):
    @jax.jit
    def f(up, down, x):
        loss = lambda up, down: jnp.mean(jax.nn.gelu(x @ up) @ down)
        return jax.grad(loss, (0, 1))(up, down)

    return f, (draw(P(None, "y"), 16, 64), draw(P("y"), 64, 16), draw(P("x"), 32, 16))


@program(X8)
def embedding_sharded_vocabulary(mesh, draw):
    def lookup(table, ids):
        own = ids - lax.axis_index("x") * table.shape[0]
        inside = (own >= 0) & (own < table.shape[0])
        rows = jnp.where(inside[..., None], table[jnp.clip(own, 0, table.shape[0] - 1)], 0)
        return lax.psum(rows, "x")

    f = shard_map(lookup, mesh, (P("x"), P()), P())
    return jax.jit(f), (draw(P("x"), 64, 16), draw.integers(P(), 64, 4, 7))


@program(X8)
def embedding_by_take(mesh, draw):
    f = jax.jit(lambda table, ids: table[ids])
    return f, (draw(P("x"), 64, 16), draw.integers(P(), 64, 4, 7))


@program(X8)
def embedding_gradient(mesh, draw):
    @jax.jit
    def f(table, ids, weights):
        return jax.grad(lambda table: jnp.sum(table[ids] * weights))(table)

    return f, (draw(P(None, "x"), 64, 16), draw.integers(P(), 64, 24), draw(P(), 24, 16))


# Sequence parallel, and attention.


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


@program(X8)
def attention_sharded_heads(mesh, draw):
    spec = P(None, None, "x")
    return jax.jit(attention), tuple(draw(spec, 2, 16, 8, 4) for _ in range(3))


@program(X8)
def attention_sharded_queries(mesh, draw):
    spec = P(None, "x")
    f = jax.jit(attention)
    return f, (draw(spec, 2, 16, 2, 4), draw(P(), 2, 16, 2, 4), draw(P(), 2, 16, 2, 4))


@program(X8)
def attention_sharded_sequence(mesh, draw):
    spec = P(None, "x")
    out = NamedSharding(mesh, spec)
    f = jax.jit(attention, out_shardings=out)
    return f, tuple(draw(spec, 2, 16, 2, 4) for _ in range(3))


@program(*X2Y4)
def attention_batch_and_heads(mesh, draw):
    @jax.jit
    def f(x, wq, wk, wv, wo):
        heads = lambda w: jnp.einsum("bsm,mhd->bshd", x, w)
        mixed = attention(heads(wq), heads(wk), heads(wv))
        return jnp.einsum("bshd,hdm->bsm", mixed, wo)

    weights = [draw(P(None, "y"), 16, 4, 8, scale=0.3) for _ in range(3)]
    return f, (draw(P("x"), 4, 8, 16), *weights, draw(P("y"), 4, 8, 16, scale=0.3))


@program(X8)
def attention_around_a_ring(mesh, draw):
    def f(q, k, v):
        size = lax.axis_size("x")
        ring = [(i, (i + 1) % size) for i in range(size)]

        def step(state, _):
            k, v, top, total, mixed = state
            scores = jnp.einsum("bqhd,bkhd->bqhk", q, k) / np.sqrt(q.shape[-1])
            new = jnp.maximum(top, scores.max(-1))
            weights = jnp.exp(scores - new[..., None])
            old = jnp.exp(top - new)
            total = total * old + weights.sum(-1)
            mixed = mixed * old[..., None] + jnp.einsum("bqhk,bkhd->bqhd", weights, v)
            return (lax.ppermute(k, "x", ring), lax.ppermute(v, "x", ring), new, total, mixed), None

        begin = (k, v, jnp.full_like(q[..., 0], -1e30), jnp.zeros_like(q[..., 0]),
                 jnp.zeros_like(q))
        (_, _, _, total, mixed), _ = lax.scan(step, begin, length=size)
        return mixed / total[..., None]

    spec = P(None, "x")
    f = shard_map(f, mesh, (spec, spec, spec), spec)
    return jax.jit(f), tuple(draw(spec, 2, 16, 2, 4) for _ in range(3))


@program(X8)
def attention_all_to_all(mesh, draw):
    def f(q, k, v):
        to_heads = lambda t: lax.all_to_all(t, "x", 2, 1, tiled=True)
        mixed = attention(to_heads(q), to_heads(k), to_heads(v))
        return lax.all_to_all(mixed, "x", 1, 2, tiled=True)

    spec = P(None, "x")
    f = shard_map(f, mesh, (spec, spec, spec), spec)
    return jax.jit(f), tuple(draw(spec, 2, 16, 8, 4) for _ in range(3))


@program(X8)
def layer_norm_sharded_features(mesh, draw):
    @jax.jit
    def f(x, scale):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-6) * scale

    return f, (draw(P(None, None, "x"), 4, 6, 32), draw(P("x"), 32))


@program(X8)
def causal_attention_gradient(mesh, draw):
    @jax.jit
    def f(q, k, v):
        def loss(q, k, v):
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
            mask = jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool))
            weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
            return jnp.sum(jnp.einsum("bhqk,bkhd->bqhd", weights, v) ** 2)

        return jax.grad(loss, (0, 1, 2))(q, k, v)

    spec = P(None, None, "x")
    return f, tuple(draw(spec, 2, 8, 8, 4, scale=0.5) for _ in range(3))


@program(X8)
def prefix_sum_over_devices(mesh, draw):
    def f(x):
        own = jnp.cumsum(x, 0)
        sums = lax.all_gather(own[-1], "x")
        before = jnp.arange(sums.shape[0]) < lax.axis_index("x")
        return own + jnp.sum(jnp.where(before[:, None], sums, 0), 0)

    f = shard_map(f, mesh, P("x"), P("x"))
    return jax.jit(f), (draw(P("x"), 32, 3),)


# Expert parallel.


@program(X8)
def experts_all_to_all(mesh, draw):
    def f(x, gate, up, down):
        experts, tokens = 8, x.shape[0]
        choice = jnp.argmax(x @ gate, -1)
        mask = jax.nn.one_hot(choice, experts, dtype=jnp.float32)
        place = (jnp.cumsum(mask, 0) - 1) * mask
        slots = jax.nn.one_hot(place.sum(-1).astype(jnp.int32), tokens) * mask.sum(-1)[:, None]
        dispatch = mask[:, :, None] * slots[:, None, :]
        sent = jnp.einsum("tec,tm->ecm", dispatch, x)
        got = lax.all_to_all(sent, "x", 0, 0, tiled=True)
        got = jax.nn.relu(got.reshape(-1, x.shape[1]) @ up[0]) @ down[0]
        back = lax.all_to_all(got.reshape(sent.shape), "x", 0, 0, tiled=True)
        return jnp.einsum("tec,ecm->tm", dispatch, back)

    f = shard_map(f, mesh, (P("x"), P(), P("x"), P("x")), P("x"))
    return jax.jit(f), (draw(P("x"), 64, 8), draw(P(), 8, 8), draw(P("x"), 8, 8, 16),
                        draw(P("x"), 8, 16, 8))


@program(X8)
def experts_by_einsum(mesh, draw):
    @jax.jit
    def f(x, gate, up, down):
        weights = jax.nn.softmax(x @ gate)
        top = jnp.where(weights >= lax.top_k(weights, 2)[0][..., -1:], weights, 0)
        hidden = jax.nn.silu(jnp.einsum("tm,emf->etf", x, up))
        return jnp.einsum("te,etf,efm->tm", top, hidden, down)

    return f, (draw(P(), 32, 8), draw(P(), 8, 8), draw(P("x"), 8, 8, 16), draw(P("x"), 8, 16, 8))


@program(*X2Y4)
def experts_and_data(mesh, draw):
    def f(x, gate, w):
        first = lax.axis_index("y") * w.shape[0]
        choice = jnp.argmax(x @ gate, -1)
        outputs = jnp.einsum("tm,emf->etf", x, w)
        chosen = (first + jnp.arange(w.shape[0]))[:, None] == choice
        return lax.psum(jnp.sum(jnp.where(chosen[..., None], outputs, 0), 0), "y")

    f = shard_map(f, mesh, (P("x"), P(), P("y")), P("x"))
    return jax.jit(f), (draw(P("x"), 32, 8), draw(P(), 8, 8), draw(P("y"), 8, 8, 16))


@program(X8)
def experts_load_balance_gradient(mesh, draw):
    @jax.jit
    def f(gate, x, w):
        def loss(gate):
            weights = jax.nn.softmax(x @ gate)
            balance = jnp.sum(weights.mean(0) ** 2)
            return balance + jnp.mean(jnp.einsum("te,emf,tm->tf", weights, w, x) ** 2)

        return jax.value_and_grad(loss)(gate)

    return f, (draw(P(), 8, 8), draw(P(), 32, 8), draw(P("x"), 8, 8, 4))


# Pipeline parallel.


def pipeline(w, x):
    stage, stages = lax.axis_index("x"), lax.axis_size("x")
    steps = x.shape[0] + stages - 1
    shift = [(i, i + 1) for i in range(stages - 1)]

    def step(state, i):
        given = jnp.where(stage == 0, x[jnp.minimum(i, x.shape[0] - 1)], state)
        made = jnp.tanh(given @ w[0])
        return lax.ppermute(made, "x", shift), made

    begin = lax.pcast(jnp.zeros_like(x[0]), ("x",), to="varying")
    _, made = lax.scan(step, begin, jnp.arange(steps))
    last = jnp.where(stage == stages - 1, made[stages - 1:], 0)
    return lax.psum(last, "x")


@program(X8)
def pipeline_forward(mesh, draw):
    f = shard_map(pipeline, mesh, (P("x"), P()), P())
    return jax.jit(f), (draw(P("x"), 8, 8, 8, scale=0.5), draw(P(), 4, 3, 8))


@program(X8)
def pipeline_gradient(mesh, draw):
    forward = shard_map(pipeline, mesh, (P("x"), P()), P())
    f = jax.jit(jax.value_and_grad(lambda w, x: jnp.sum(forward(w, x) ** 2)))
    return f, (draw(P("x"), 8, 8, 8, scale=0.5), draw(P(), 4, 3, 8))


@program(*X4Y2)
def pipeline_and_tensor(mesh, draw):
    def f(w, x):
        stage, stages = lax.axis_index("x"), lax.axis_size("x")
        part = lambda y: lax.dynamic_slice_in_dim(y, lax.axis_index("y") * 4, 4, 1)
        ring = [(i, (i + 1) % stages) for i in range(stages)]
        y = lax.pcast(x, ("x",), to="varying")
        for i in range(stages):
            made = jnp.tanh(lax.psum(part(y) @ w[0], "y"))
            y = lax.ppermute(jnp.where(stage == i, made, y), "x", ring)
        return lax.psum(jnp.where(stage == 0, y, 0), "x")

    f = shard_map(f, mesh, (P("x", "y"), P()), P())
    return jax.jit(f), (draw(P("x", "y"), 4, 8, 8, scale=0.5), draw(P(), 3, 8))


# Optimizers with sharded state.


def adam(w, m, v, g, t):
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return w - 0.01 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.99**t)) + 1e-8), m, v


@program(X8)
def adam_sharded_state(mesh, draw):
    spec = P("x")

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def step(w, m, v, x, y):
        g = jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
        return adam(w, m, v, constrained(g, mesh, "x"), 1)

    zeros = lambda: draw.put(np.zeros((16, 4), np.float32), spec)
    return step, (draw(spec, 16, 4), zeros(), zeros(), draw(P("x"), 64, 16), draw(P("x"), 64, 4))


@program(X8)
def adam_psum_scatter(mesh, draw):
    def step(w, m, v, x, y):
        whole = lax.all_gather(w, "x", tiled=True)
        g = jax.grad(lambda w: jnp.mean((x @ w - y) ** 2) / 8)(whole)
        g = lax.psum_scatter(g, "x", tiled=True)
        return adam(w, m, v, g, 1)

    spec = P("x")
    step = shard_map(step, mesh, (spec,) * 5, (spec,) * 3)
    zeros = lambda: draw.put(np.zeros((16, 4), np.float32), spec)
    return jax.jit(step), (draw(spec, 16, 4), zeros(), zeros(), draw(spec, 64, 16),
                           draw(spec, 64, 4))


@program(*X2Y4)
def momentum_two_axes(mesh, draw):
    @jax.jit
    def step(w, m, x, y):
        g = jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
        m = 0.9 * m + g
        return w - 0.1 * m, m

    spec = P("y", "x")
    return step, (draw(spec, 16, 4), draw(spec, 16, 4), draw(P("x", "y"), 64, 16),
                  draw(P("x"), 64, 4))


@program(X8)
def clip_by_global_norm(mesh, draw):
    @jax.jit
    def f(tree):
        norm = jnp.sqrt(sum(jnp.sum(x * x) for x in jax.tree.leaves(tree)))
        return norm, jax.tree.map(lambda x: x * jnp.minimum(1, 0.5 / norm), tree)

    return f, ({"a": draw(P("x"), 16, 3), "b": draw(P(None, "x"), 5, 8), "c": draw(P(), 7)},)


@program(*X2Y4)
def factored_second_moments(mesh, draw):
    @jax.jit
    def f(w, g):
        rows, columns = jnp.mean(g * g, 1), jnp.mean(g * g, 0)
        scale = rows[:, None] * columns[None, :] / rows.mean()
        return w - 0.1 * g * lax.rsqrt(scale + 1e-6), rows, columns

    return f, (draw(P("x", "y"), 16, 8), draw(P("x", "y"), 16, 8))


# Stencils.


def neighbours(x, axis, size):
    down = [(i, i + 1) for i in range(size - 1)]
    up = [(i + 1, i) for i in range(size - 1)]
    return lax.ppermute(x[-1:], axis, down), lax.ppermute(x[:1], axis, up)


@program(X8)
def heat_halo_exchange(mesh, draw):
    def f(u):
        def step(_, u):
            above, below = neighbours(u, "x", 8)
            wide = jnp.concatenate([above, u, below])
            return u + 0.1 * (wide[2:] - 2 * u + wide[:-2])

        return lax.fori_loop(0, 5, step, u)

    return jax.jit(shard_map(f, mesh, P("x"), P("x"))), (draw(P("x"), 64, 6),)


@program(*X2Y4)
def heat_two_axes(mesh, draw):
    def f(u):
        def step(_, u):
            above, below = neighbours(u, "x", 2)
            left, right = neighbours(u.T, "y", 4)
            tall = jnp.concatenate([above, u, below])
            wide = jnp.concatenate([left, u.T, right]).T
            return u + 0.1 * (tall[2:] + tall[:-2] + wide[:, 2:] + wide[:, :-2] - 4 * u)

        return lax.fori_loop(0, 4, step, u)

    return jax.jit(shard_map(f, mesh, P("x", "y"), P("x", "y"))), (draw(P("x", "y"), 16, 32),)


@program(X8)
def heat_by_roll(mesh, draw):
    f = jax.jit(lambda u: u + 0.1 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) - 2 * u))
    return f, (draw(P("x"), 64, 6),)


@program(X8)
def life_by_pad(mesh, draw):
    @jax.jit
    def f(cells):
        p = jnp.pad(cells, 1)
        around = sum(p[1 + i:p.shape[0] - 1 + i, 1 + j:p.shape[1] - 1 + j]
                     for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
        return ((around == 3) | ((cells == 1) & (around == 2))).astype(jnp.int32)

    return f, (draw.integers(P("x"), 2, 32, 20),)


@program(X8)
def convolution_sharded_rows(mesh, draw):
    @jax.jit
    def f(x, kernel):
        y = lax.conv_general_dilated(x, kernel, (1, 1), "SAME",
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return constrained(y, mesh, None, "x")

    return f, (draw(P(None, "x"), 2, 32, 8, 3), draw(P(), 5, 3, 3, 4))


@program(X8)
def pooling_sharded_rows(mesh, draw):
    f = jax.jit(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1),
                                            "SAME"))
    return f, (draw(P(None, "x"), 2, 32, 8, 3),)


# Collectives.


@program(*X2Y4)
def collective_psum(mesh, draw):
    f = lambda x: (lax.psum(x, "x"), lax.psum(x, "y"), lax.psum(x, ("x", "y")))
    f = shard_map(f, mesh, P("x", "y"), (P(None, "y"), P("x"), P()))
    return jax.jit(f), (draw(P("x", "y"), 4, 8),)


@program(*X2Y4)
def collective_pmax_pmin(mesh, draw):
    f = lambda x: (lax.pmax(x, "x"), lax.pmin(x, "y"))
    f = shard_map(f, mesh, P("x", "y"), (P(None, "y"), P("x")))
    return jax.jit(f), (draw(P("x", "y"), 4, 8),)


@program(*X2Y4)
def collective_all_gather(mesh, draw):
    f = lambda x: (lax.all_gather(x, "y", tiled=True), lax.all_gather(x, ("y", "x"), axis=1))
    f = shard_map(f, mesh, P("x", "y"), (P("x"), P("x")), check_vma=False)
    return jax.jit(f), (draw(P("x", "y"), 4, 8),)


@program(*X2Y4)
def collective_all_to_all(mesh, draw):
    f = lambda x: lax.all_to_all(x, "y", 1, 0, tiled=True)
    f = shard_map(f, mesh, P(("x", "y")), P("x", "y"))
    return jax.jit(f), (draw(P(("x", "y")), 16, 12),)


@program(X8)
def collective_ppermute(mesh, draw):
    f = lambda x: lax.ppermute(x, "x", [(0, 3), (3, 1), (5, 5), (7, 0)])
    return jax.jit(shard_map(f, mesh, P("x"), P("x"))), (draw(P("x"), 16, 3),)


@program(*X2Y4)
def collective_axis_index(mesh, draw):
    f = lambda x: x + 10 * lax.axis_index("x") + lax.axis_index("y")
    return jax.jit(shard_map(f, mesh, P("x", "y"), P("x", "y"))), (draw(P("x", "y"), 4, 8),)


@program(X8)
def collective_groups(mesh, draw):
    groups = [[0, 1, 2, 3], [4, 5, 6, 7]]
    f = lambda x: lax.all_gather(x, "x", axis_index_groups=groups, tiled=True)
    f = shard_map(f, mesh, P("x"), P("x"), check_vma=False)
    return jax.jit(f), (draw(P("x"), 16, 3),)


# Others.


@program(*X2Y4)
def some_axes_manual(mesh, draw):
    def f(x, w):
        return lax.psum(jnp.tanh(x @ w), "x")

    f = shard_map(f, mesh, (P("x"), P()), P(), axis_names={"x"})
    return jax.jit(f), (draw(P("x", "y"), 16, 8), draw(P("y"), 8, 6))


@program(*X2Y4)
def constraint_changes_axes(mesh, draw):
    @jax.jit
    def f(x):
        x = constrained(x * 2, mesh, "y", "x")
        x = constrained(x + 1, mesh, None, ("x", "y"))
        return constrained(x * x, mesh, ("y", "x"), None)

    return f, (draw(P("x", "y"), 16, 16),)


@program(X8)
def constraint_uneven(mesh, draw):
    @jax.jit
    def f(x):
        y = constrained(x * 2, mesh, "x")
        return jnp.sum(y, 0), jnp.max(y), jnp.sort(y, 0)

    return f, (draw(P(), 13, 3),)


@program(X8)
def sort_sharded(mesh, draw):
    f = jax.jit(lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1)))
    return f, (draw(P("x"), 32, 6),)


@program(X8)
def fourier_transform_in_steps(mesh, draw):
    def f(x):
        x = jnp.fft.fft(x, axis=1)
        x = lax.all_to_all(x, "x", 1, 0, tiled=True)
        return jnp.fft.fft(x, axis=0)

    f = shard_map(f, mesh, P("x"), P(None, "x"))
    return jax.jit(f), (draw(P("x"), 16, 16),)


@program(X8)
def histogram_by_scatter(mesh, draw):
    f = jax.jit(lambda bins, weights: jnp.zeros(10).at[bins].add(weights))
    return f, (draw.integers(P("x"), 10, 64), draw(P("x"), 64))


@program(X8)
def cumulative_sum_sharded(mesh, draw):
    return jax.jit(lambda x: (jnp.cumsum(x, 0), jnp.cumsum(x, 1))), (draw(P("x"), 32, 5),)


@program(X8)
def random_numbers_sharded(mesh, draw):
    def f(key):
        return constrained(jax.random.normal(key, (64, 3)), mesh, "x")

    key = jax.device_put(np.array([1, 2], np.uint32), NamedSharding(mesh, P()))
    return jax.jit(f), (key,)


@program(X8)
def loop_until_converged(mesh, draw):
    @jax.jit
    def f(a, x):
        def step(state):
            x, _, i = state
            y = a @ x
            y = y / jnp.linalg.norm(y)
            return y, jnp.sum(jnp.abs(y - x)), i + 1

        return lax.while_loop(lambda s: (s[1] > 1e-3) & (s[2] < 50), step, (x, 1.0, 0))

    a = draw.put(np.diag(np.arange(1, 17)).astype(np.float32), P("x"))
    return f, (a, draw(P(), 16))


@program(X8)
def branches_sharded(mesh, draw):
    @jax.jit
    def f(i, x):
        return lax.switch(i, [lambda x: x * 2, lambda x: jnp.cumsum(x, 0), jnp.sin], x)

    i = jax.device_put(np.int32(1), NamedSharding(mesh, P()))
    return f, (i, draw(P("x"), 16, 4))


@program(X8)
def mapped_over_devices(mesh, draw):
    devices = list(mesh.devices.flat)
    f = jax.pmap(lambda x: (x / lax.psum(x, "i"), lax.axis_index("i")), "i", devices=devices)
    return f, (np.arange(24, dtype=np.float32).reshape(8, 3) + 1,)


@program(X8)
def mapped_with_broadcast(mesh, draw):
    devices = list(mesh.devices.flat)
    f = jax.pmap(lambda x, w: lax.pmean(x @ w, "i"), "i", in_axes=(1, None), devices=devices)
    x, w = draw.generator.standard_normal((4, 8, 3)), draw.generator.standard_normal((3, 2))
    return f, (x.astype(np.float32), w.astype(np.float32))
