"""How fast kernels are simulated, beside JAX's own interpreter of TPU kernels.

    TEGULA_SLOT=off python python/conformance/pallas_speed.py

Both look for races; CPU time of this process, start-up and compilation excluded: each kernel is run
once before it is measured. Prints a table: grid steps, seconds of `InterpretParams
(detect_races=True)`, of `tegula.pallas`, and of the same without values, and how many times less the
last two are.
"""

import os
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import tegula.pallas


def matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...]


def matmul(size=1280, block=128):
    x, y = (np.random.RandomState(s).randn(size, size).astype(np.float32) for s in range(2))
    count = size // block
    call = pl.pallas_call(
        matmul_kernel,
        out_shape=jax.ShapeDtypeStruct((size, size), jnp.float32),
        grid=(count, count, count),
        in_specs=[
            pl.BlockSpec((block, block), lambda i, j, k: (i, k)),
            pl.BlockSpec((block, block), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((block, block), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((block, block), jnp.float32)],
    )
    return lambda: call(x, y), count**3


def flash(heads=4, length=2048):
    from jax.experimental.pallas.ops.tpu import flash_attention as own

    shape = (1, heads, length, 128)
    q, k, v = (np.random.RandomState(s).randn(*shape).astype(np.float32) for s in range(3))
    sizes = own.BlockSizes.get_default(1, heads, length, length, 128)
    steps = heads * (length // sizes.block_q) * (length // sizes.block_k_major)
    return lambda: own.flash_attention(q, k, v, block_sizes=sizes), steps


def seconds(run):
    jax.block_until_ready(run())
    before = time.process_time()
    jax.block_until_ready(run())
    return time.process_time() - before


def main():
    print("| kernel | steps | interpreter | tegula.pallas | | without values | |\n|---|---|---|---|---|---|---|")
    for name, make in (("matmul", matmul), ("flash attention", flash)):
        # A call knows from its making whether it is interpreted.
        with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(detect_races=True)):
            run, steps = make()
            theirs = seconds(run)
        own = {}
        for values in (True, False):
            with tegula.pallas.simulator("v5e", values=values):
                own[values] = seconds(make()[0])
        cells = [f"{own[v]:.3f} s | {theirs / own[v]:.0f}x" for v in (True, False)]
        print(f"| {name} | {steps} | {theirs:.2f} s | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
