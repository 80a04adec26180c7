"""Layers of equinox, flax and haiku, and graph networks of jraph."""

import jax
import jax.numpy as jnp
import numpy as np

NEEDS = ("equinox", "flax", "haiku", "jraph")


def programs():
    import equinox
    import flax.linen as linen
    import haiku
    import jraph

    key = jax.random.PRNGKey(0)
    r = np.random.RandomState(0)
    rows = r.randn(32, 24).astype(np.float32)
    sequence = r.randn(16, 8, 24).astype(np.float32)
    image = r.randn(4, 16, 16, 3).astype(np.float32)
    found = {}

    mlp = equinox.nn.MLP(24, 10, 64, 3, key=key)
    found["equinox_mlp"] = (jax.vmap(mlp), rows)
    cell = equinox.nn.GRUCell(24, 24, key=key)
    scan = lambda x: jax.lax.scan(lambda h, v: (cell(v, h),) * 2, jnp.zeros(24), x)
    found["equinox_gru"] = (scan, rows)
    attention = equinox.nn.MultiheadAttention(4, 24, key=key)
    found["equinox_attention"] = (lambda x: attention(x, x, x), rows)
    found["equinox_norm"] = (jax.vmap(equinox.nn.LayerNorm(24)), rows)

    layers = {
        "dense": (linen.Dense(48), rows),
        "layer_norm": (linen.LayerNorm(), rows),
        "rms_norm": (linen.RMSNorm(), rows),
        "group_norm": (linen.GroupNorm(num_groups=4), rows),
        "conv": (linen.Conv(16, (3, 3)), image),
        "conv_transpose": (linen.ConvTranspose(8, (3, 3), strides=(2, 2)), image),
        "attention": (linen.MultiHeadDotProductAttention(4), sequence),
        "lstm": (linen.RNN(linen.OptimizedLSTMCell(24)), sequence),
        "gru": (linen.RNN(linen.GRUCell(24)), sequence),
        "embed_dense": (linen.Sequential([linen.Dense(64), linen.gelu, linen.Dense(10)]), rows),
    }
    for name, (layer, x) in layers.items():
        weights = layer.init(key, x)
        found[f"flax_{name}"] = (lambda x, l=layer, w=weights: l.apply(w, x), x)
        loss = lambda w, x, l=layer: jnp.sum(l.apply(w, x) ** 2)
        found[f"flax_{name}_gradient"] = (
            lambda x, w=weights, loss=loss: jax.grad(loss)(w, x),
            x,
        )

    for name, make, x in (
        ("mlp", lambda x: haiku.nets.MLP([64, 64, 10])(x), rows),
        ("lstm", lambda x: haiku.dynamic_unroll(c := haiku.LSTM(24), x, c.initial_state(8))[0], sequence),
        ("conv", lambda x: haiku.Conv2D(16, 3)(x), image),
    ):
        layer = haiku.without_apply_rng(haiku.transform(make))
        weights = layer.init(key, x)
        found[f"haiku_{name}"] = (lambda x, l=layer, w=weights: l.apply(w, x), x)

    edges = r.randint(0, 20, (2, 60))

    def graph(nodes):
        start = jraph.GraphsTuple(
            nodes=nodes,
            edges=jnp.ones((60, 4)),
            senders=edges[0],
            receivers=edges[1],
            n_node=jnp.array([20]),
            n_edge=jnp.array([60]),
            globals=jnp.zeros((1, 4)),
        )
        network = jraph.GraphConvolution(lambda n: jnp.tanh(n) * 0.5, add_self_edges=True)
        return network(network(start)).nodes

    found["jraph_convolution"] = (graph, r.randn(20, 8).astype(np.float32))
    return found
