"""Programs of MaxText's decoder, lowered for a slice of TPUs without a TPU.

    python maxtext.py CONFIG [-o FILE]

A training step of the models that MaxText's tables name by their size: a decoder as Llama 2 has it,
scanned over its layers and rematerialised, with Adam. Sizes follow from `global_parameter_scale` as
in MaxText's `get_individual_scales`; shardings are those of its default axis rules: weights over
`fsdp` along the embedding and over `tensor` along heads and the hidden layer, activations over `fsdp`
along the batch. Nothing is computed: JAX traces shapes and writes StableHLO, whose
devices are an abstract mesh.

Attention is JAX's flash attention for TPUs. Its kernels state no work, so that theirs is stated here.
"""

import argparse
import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

VOCABULARY = 32_000
SEQUENCE = 2048
HEAD = 128


@dataclasses.dataclass(frozen=True)
class Config:
    """A line of MaxText's tables."""

    scale: int
    """Parameters, in billions: `global_parameter_scale`."""
    chips: int
    batch: float
    """Sequences for each chip: `per_device_batch_size`."""
    tensor: int
    """Chips that share a layer's products: `ici_tensor_parallelism`."""
    remat: str
    """`full`: a layer keeps its input; `minimal`: it keeps its products as well."""

    @property
    def exponents(self):
        base, rest = divmod(int(math.log2(self.scale)), 3)
        return base, rest

    @property
    def emb(self):
        base, rest = self.exponents
        return 2048 * 2 ** (base + (rest > 1))

    @property
    def heads(self):
        base, rest = self.exponents
        return 16 * 2 ** (base + (rest > 0))

    @property
    def mlp(self):
        base, rest = self.exponents
        return 7168 * 2 ** (base + (rest > 0))

    @property
    def layers(self):
        return 16 * 2 ** self.exponents[0]

    @property
    def parameters(self):
        attention = 4 * self.emb * self.heads * HEAD
        return self.layers * (attention + 3 * self.emb * self.mlp) + 2 * VOCABULARY * self.emb

    @property
    def model_flops(self):
        """Of a step, for each chip, as MaxText counts: no rematerialisation, and causal attention."""
        tokens = self.batch * SEQUENCE
        attention = 6 * self.heads * self.layers * HEAD * SEQUENCE**2 * self.batch
        return 6 * self.parameters * tokens + attention


def stated_work(plain):
    """`pallas_call` that states the work of a flash attention's kernel.

    A causal mask leaves out the blocks above the diagonal. The forward kernel has two products, those
    of the gradient three (of the queries) and four (of keys and values).
    """

    def call(kernel, *args, name=None, **options):
        options.pop("cost_estimate", None)

        def with_work(*operands):
            q = next(o for o in operands if getattr(o, "ndim", 0) == 4)
            batch, heads, sequence, head = q.shape
            products = 2
            if name and "dq" in name:
                products = 3
            elif name and "dkv" in name:
                products = 4
            blocks = max(1, sequence // 512)
            visited = (blocks + 1) / (2 * blocks)
            scores = batch * heads * sequence * sequence * visited
            moved = sum(o.size * o.dtype.itemsize for o in operands if o is not None)
            cost = flash.pl.CostEstimate(
                flops=int(2 * products * scores * head),
                transcendentals=int(scores),
                bytes_accessed=int(moved + q.size * q.dtype.itemsize),
            )
            return plain(kernel, *args, name=name, cost_estimate=cost, **options)(*operands)

        return with_work

    return call


flash.pl.pallas_call = stated_work(flash.pl.pallas_call)


def attention(mesh, q, k, v):
    """Causal attention of `[batch, heads, sequence, head]`, each device on its own heads."""
    spec = P("fsdp", "tensor", None, None)
    sizes = flash.BlockSizes(
        block_q=512, block_k_major=512, block_k=512, block_b=1,
        block_q_major_dkv=512, block_k_major_dkv=512, block_k_dkv=512, block_q_dkv=512,
        block_k_major_dq=512, block_k_dq=512, block_q_dq=512,
    )  # fmt: skip
    run = functools.partial(flash.flash_attention, causal=True, block_sizes=sizes)
    return jax.shard_map(
        run, mesh=mesh, in_specs=(spec, spec, spec), out_specs=spec, check_vma=False
    )(q, k, v)


def normalised(x, scale):
    x32 = x.astype(jnp.float32)
    x32 = x32 * jax.lax.rsqrt(jnp.mean(x32 * x32, axis=-1, keepdims=True) + 1e-5)
    return (x32 * scale).astype(jnp.bfloat16)


def rotated(x):
    """Rotary embedding of `[batch, heads, sequence, head]`."""
    half = x.shape[-1] // 2
    rate = 10_000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(x.shape[2], dtype=jnp.float32)[:, None] * rate
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(jnp.bfloat16)


def shapes_and_specs(config):
    e, h, m, n = config.emb, config.heads, config.mlp, config.layers
    shapes = {
        "table": ((VOCABULARY, e), P("tensor", "fsdp")),
        "q": ((n, e, h, HEAD), P(None, "fsdp", "tensor", None)),
        "k": ((n, e, h, HEAD), P(None, "fsdp", "tensor", None)),
        "v": ((n, e, h, HEAD), P(None, "fsdp", "tensor", None)),
        "out": ((n, h, HEAD, e), P(None, "tensor", None, "fsdp")),
        "gate": ((n, e, m), P(None, "fsdp", "tensor")),
        "up": ((n, e, m), P(None, "fsdp", "tensor")),
        "down": ((n, m, e), P(None, "tensor", "fsdp")),
        "before_attention": ((n, e), P()),
        "before_mlp": ((n, e), P()),
        "last": ((e,), P()),
        "logits": ((e, VOCABULARY), P("fsdp", "tensor")),
    }
    return shapes


def step_of(config, mesh):
    def constrained(x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))

    def product(spec, x, w, *out):
        w = w.astype(jnp.bfloat16)
        y = jnp.einsum(spec, x, w)
        y = checkpoint_name(y, "product")
        return constrained(y, *out)

    # MaxText's `activation_embed`: between products, activations are cut over `tensor`, too.
    batch = ("fsdp", None, "tensor")

    def layer(x, w):
        x = constrained(x, *batch)
        y = normalised(x, w["before_attention"])
        heads = ("fsdp", "tensor", None, None)
        q = rotated(product("bse,ehd->bhsd", y, w["q"], *heads))
        k = rotated(product("bse,ehd->bhsd", y, w["k"], *heads))
        v = product("bse,ehd->bhsd", y, w["v"], *heads)
        a = attention(mesh, q * jnp.bfloat16(HEAD**-0.5), k, v)
        x = x + product("bhsd,hde->bse", a, w["out"], *batch)
        y = normalised(x, w["before_mlp"])
        hidden = ("fsdp", None, "tensor")
        gate = product("bse,em->bsm", y, w["gate"], *hidden)
        up = product("bse,em->bsm", y, w["up"], *hidden)
        x = x + product("bsm,me->bse", jax.nn.silu(gate) * up, w["down"], *batch)
        return constrained(x, *batch), None

    policies = jax.checkpoint_policies
    policy = {
        "full": policies.nothing_saveable,
        "minimal": policies.save_only_these_names("product"),
    }[config.remat]
    layer = jax.checkpoint(layer, policy=policy, prevent_cse=False)

    def loss_of(weights, tokens, targets):
        stacked = {k: v for k, v in weights.items() if k not in ("table", "last", "logits")}
        one_hot = jax.nn.one_hot(tokens, VOCABULARY, dtype=jnp.bfloat16)
        x = product("bsv,ve->bse", one_hot, weights["table"], *batch)
        x, _ = jax.lax.scan(layer, x, stacked)
        x = normalised(x, weights["last"])
        logits = product("bse,ev->bsv", x, weights["logits"], "fsdp", None, "tensor")
        logits = logits.astype(jnp.float32)
        high = jax.lax.stop_gradient(logits.max(-1, keepdims=True))
        log_sum = jnp.log(jnp.exp(logits - high).sum(-1)) + high[..., 0]
        chosen = (logits * jax.nn.one_hot(targets, VOCABULARY, dtype=jnp.float32)).sum(-1)
        return (log_sum - chosen).mean()

    def step(weights, first, second, count, tokens, targets):
        loss, gradients = jax.value_and_grad(loss_of)(weights, tokens, targets)
        count = count + 1
        norm = jnp.sqrt(sum(jnp.sum(g.astype(jnp.float32) ** 2) for g in gradients.values()))
        clip = jnp.minimum(1.0, 1.0 / norm)
        bias1 = 1 - 0.9 ** count.astype(jnp.float32)
        bias2 = 1 - 0.95 ** count.astype(jnp.float32)
        new, m1, m2 = {}, {}, {}
        for name, g in gradients.items():
            g = g * clip
            m1[name] = 0.9 * first[name] + 0.1 * g
            m2[name] = 0.95 * second[name] + 0.05 * g * g
            update = (m1[name] / bias1) / (jnp.sqrt(m2[name] / bias2) + 1e-8)
            new[name] = weights[name] - 3e-5 * (update + 0.1 * weights[name])
        return new, m1, m2, count, loss

    return step


def lowered(config):
    """The step as StableHLO text."""
    mesh = AbstractMesh(
        (config.chips // config.tensor, config.tensor), ("fsdp", "tensor"),
        axis_types=(AxisType.Auto, AxisType.Auto),
    )  # fmt: skip
    of = lambda shape, spec, ty: jax.ShapeDtypeStruct(shape, ty, sharding=NamedSharding(mesh, spec))
    stated = shapes_and_specs(config)
    weights = {k: of(shape, spec, jnp.float32) for k, (shape, spec) in stated.items()}
    batch = round(config.batch * config.chips)
    tokens = of((batch, SEQUENCE), P("fsdp", None), jnp.int32)
    count = of((), P(), jnp.int32)
    kept = jax.tree.map(lambda w: w.sharding, weights)
    step = jax.jit(
        step_of(config, mesh),
        donate_argnums=(0, 1, 2, 3),
        out_shardings=(kept, kept, kept, NamedSharding(mesh, P()), NamedSharding(mesh, P())),
    )
    traced = step.trace(weights, weights, weights, count, tokens, tokens)
    return traced.lower(lowering_platforms=("tpu",)).as_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for field in dataclasses.fields(Config):
        parser.add_argument(f"--{field.name}", type=field.type if isinstance(field.type, type) else str, required=True)
    parser.add_argument("-o", "--output")
    args = vars(parser.parse_args())
    output = args.pop("output")
    text = lowered(Config(**args))
    if output is None:
        print(text)
    else:
        with open(output, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
