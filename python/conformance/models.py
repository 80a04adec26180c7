"""Training and inference of three models written with flax, with XLA and with Tegula.

    python python/conformance/models.py FOLDER [--only REGEX] [--steps N]

ResNet-50, GPT-2 small and BERT base with random weights on random data: a step of training (gradients
and Adam, the state donated) and a step of inference. Each is run in a process of its own by XLA's client
(TEGULA_SLOT=off), then by Tegula's. Printed are the first step (tracing, compiling and running),
the median of the others, the peak of the process's memory and the largest relative difference of the
losses between the two. The exit code is 1 if a loss differs by more than TOLERANCE.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time

# Sums of f32 differ in their order; what that does to a loss grows with the steps of training.
TOLERANCE = 2e-3
SLOTS = {"xla": "off", "tegula": "cpu"}


def resnet50():
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax

    class Block(nn.Module):
        features: int
        stride: int

        @nn.compact
        def __call__(self, x, train):
            def norm(scale=nn.initializers.ones):
                return nn.BatchNorm(use_running_average=not train, momentum=0.9, scale_init=scale)

            y = nn.relu(norm()(nn.Conv(self.features, (1, 1), use_bias=False)(x)))
            y = nn.Conv(self.features, (3, 3), (self.stride, self.stride), use_bias=False)(y)
            y = nn.relu(norm()(y))
            y = norm(nn.initializers.zeros)(nn.Conv(4 * self.features, (1, 1), use_bias=False)(y))
            if x.shape != y.shape:
                strides = (self.stride, self.stride)
                x = norm()(nn.Conv(4 * self.features, (1, 1), strides, use_bias=False)(x))
            return nn.relu(x + y)

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            x = nn.Conv(64, (7, 7), (2, 2), padding=3, use_bias=False)(x)
            x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(x))
            x = nn.max_pool(x, (3, 3), strides=(2, 2), padding="SAME")
            for stage, blocks in enumerate((3, 4, 6, 3)):
                for block in range(blocks):
                    x = Block(64 << stage, 2 if stage and not block else 1)(x, train)
            return nn.Dense(1000)(x.mean((1, 2)))

    keys = jax.random.split(jax.random.key(0), 3)
    images = jax.random.normal(keys[0], (4, 224, 224, 3))
    labels = jax.random.randint(keys[1], (4,), 0, 1000)
    model = Model()
    variables = jax.jit(lambda key: model.init(key, images, True))(keys[2])

    def loss(variables):
        logits, moved = model.apply(variables, images, True, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), moved

    def infer(variables):
        return jnp.abs(model.apply(variables, images, False)).mean()

    return variables, loss, infer


def transformer(vocabulary, causal, batch, tokens):
    """GPT-2 small if `causal`, else BERT base with a tenth of the tokens to be guessed."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, mask):
            def attention(y):
                return nn.MultiHeadDotProductAttention(12)(y, y, y, mask=mask)

            def feed_forward(y):
                return nn.Dense(768)(nn.gelu(nn.Dense(3072)(y), approximate=causal))

            if causal:
                x = x + attention(nn.LayerNorm()(x))
                return x + feed_forward(nn.LayerNorm()(x))
            x = nn.LayerNorm()(x + attention(x))
            return nn.LayerNorm()(x + feed_forward(x))

    class Model(nn.Module):
        @nn.compact
        def __call__(self, words):
            embed = nn.Embed(vocabulary, 768)
            x = embed(words) + nn.Embed(1024, 768)(jnp.arange(words.shape[1]))
            mask = nn.make_causal_mask(words) if causal else None
            if not causal:
                x = nn.LayerNorm()(x)
            for _ in range(12):
                x = Block()(x, mask)
            return embed.attend(nn.LayerNorm()(x) if causal else nn.Dense(768)(x))

    keys = jax.random.split(jax.random.key(1), 3)
    words = jax.random.randint(keys[0], (batch, tokens), 0, vocabulary)
    guessed = jax.random.bernoulli(keys[1], 0.1, (batch, tokens))
    model = Model()
    variables = jax.jit(lambda key: model.init(key, words))(keys[2])

    def loss(variables):
        logits = model.apply(variables, jnp.where(guessed, 0, words) if not causal else words)
        if causal:
            losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], words[:, 1:])
            return losses.mean(), {}
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, words)
        return (losses * guessed).sum() / guessed.sum(), {}

    def infer(variables):
        return jnp.abs(model.apply(variables, words)).mean()

    return variables, loss, infer


MODELS = {
    "resnet50": resnet50,
    "gpt2_small": lambda: transformer(50257, True, 2, 128),
    "bert_base": lambda: transformer(30522, False, 2, 128),
}


def work(model, kind, steps):
    """Runs the steps in this process; prints a line of JSON."""
    import jax
    import optax

    variables, loss, infer = MODELS[model]()
    optimiser = optax.adam(1e-4)

    def train(state):
        variables, moments = state
        parameters = variables["params"]

        def of(parameters):
            return loss({**variables, "params": parameters})

        (value, moved), gradients = jax.value_and_grad(of, has_aux=True)(parameters)
        updates, moments = optimiser.update(gradients, moments)
        parameters = optax.apply_updates(parameters, updates)
        return ({**variables, **moved, "params": parameters}, moments), value

    if kind == "train":
        state = jax.block_until_ready((variables, jax.jit(optimiser.init)(variables["params"])))
        del variables
        step = jax.jit(train, donate_argnums=0)
    else:
        state = jax.block_until_ready(variables)
        step = jax.jit(lambda state: (state, infer(state)), donate_argnums=0)
    values, seconds = [], []
    for _ in range(steps):
        start = time.perf_counter()
        state, value = step(state)
        values.append(float(value))
        jax.block_until_ready(state)
        seconds.append(time.perf_counter() - start)
    print(json.dumps({
        "values": values, "first": seconds[0], "later": statistics.median(seconds[1:]),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))


def main():
    parser = argparse.ArgumentParser(description="Training and inference of models of flax")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", metavar="REGEX", default="", help="models (MODEL.KIND) whose names match")
    parser.add_argument("--steps", type=int, default=20, help="steps of training; inference: as many")
    parser.add_argument("--work", nargs=2, metavar=("MODEL", "KIND"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(*arguments.work, arguments.steps)
        return 0
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print("| step | first: XLA s | Tegula s | XLA / Tegula | later: XLA ms | Tegula ms | XLA / Tegula "
          "| peak: XLA MB | Tegula MB | losses differ by |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    failed = False
    for name in [f"{model}.{kind}" for model in MODELS for kind in ("train", "infer")]:
        if not re.search(arguments.only, name):
            continue
        rows = {}
        for slot, setting in SLOTS.items():
            command = [sys.executable, __file__, str(arguments.folder), "--steps", str(arguments.steps)]
            done = subprocess.run(
                [*command, "--work", *name.split(".")], text=True, capture_output=True,
                env={"JAX_PLATFORMS": "cpu", **os.environ, "TEGULA_SLOT": setting},
            )
            if done.returncode:
                sys.exit(f"{name} with {slot} ended with {done.returncode}:\n{done.stderr}")
            rows[slot] = json.loads(done.stdout.splitlines()[-1])
        (arguments.folder / f"{name}.json").write_text(json.dumps(rows))
        xla, ours = rows["xla"], rows["tegula"]
        apart = max(abs(a - b) / abs(a) for a, b in zip(xla["values"], ours["values"]))
        failed |= not apart <= TOLERANCE
        print(f"| {name} | {xla['first']:.2f} | {ours['first']:.2f} | {xla['first'] / ours['first']:.2f} "
              f"| {1e3 * xla['later']:.0f} | {1e3 * ours['later']:.0f} | {xla['later'] / ours['later']:.2f} "
              f"| {xla['peak']:.0f} | {ours['peak']:.0f} | {apart:.1e} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
