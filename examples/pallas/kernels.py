"""Kernels in Pallas, and the same with one mistake each: `python kernels.py FOLDER` lowers them
(no TPU is needed) and writes for each its program, inputs and results. `mistakes.py` has more
kernels, each with many mistakes.

The results are numpy's. `EXPECTED` names the finding that a mistake is, or nothing.
"""

import functools
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


def softmax_kernel(x_ref, o_ref):
    x = x_ref[...]
    e = jnp.exp(x - jnp.max(x, axis=1, keepdims=True))
    o_ref[...] = e / jnp.sum(e, axis=1, keepdims=True)


def softmax():
    x = f32(32, 256)
    call = pl.pallas_call(
        softmax_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 256), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 256), lambda i: (i, 0)),
    )
    e = np.exp(x - x.max(1, keepdims=True))
    return call, [x], [e / e.sum(1, keepdims=True)]


def matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == 1)
    def _():
        o_ref[...] = acc_ref[...]


def matmul(inner_last=True):
    x, y = f32(256, 256), f32(256, 256)
    order = (lambda i, j, k: (i, j)) if inner_last else (lambda i, j, k: (i, k))
    call = pl.pallas_call(
        matmul_kernel,
        out_shape=jax.ShapeDtypeStruct((256, 256), jnp.float32),
        grid=(2, 2, 2),
        in_specs=[
            pl.BlockSpec((128, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((128, 128), order),
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
    )
    return call, [x, y], [x @ y]


def copy_kernel(mistake, x_ref, o_ref, buffer, sem_in, sem_out):
    """Doubles 8 blocks of rows with two buffers, copies beside the computation."""

    def fetch(i):
        # The lines of the mistakes are found by their comments.
        return pltpu.make_async_copy(x_ref.at[pl.ds(i * 8, 8)], buffer.at[i % 2], sem_in.at[i % 2])

    def store(i):
        return pltpu.make_async_copy(buffer.at[2 + i % 2], o_ref.at[pl.ds(i * 8, 8)], sem_out.at[i % 2])

    fetch(0).start()
    for i in range(8):
        if i + 1 < 8:
            fetch(i + 1).start()
        if mistake != "missing wait":
            fetch(i).wait()
        if mistake == "doubled wait" and i == 3:
            again = pltpu.make_async_copy(x_ref.at[pl.ds(0, 8)], buffer.at[1], sem_in.at[1])
            again.wait()  # here: doubled wait
        if i >= 2 and mistake != "overwritten source":
            store(i - 2).wait()
        slot = 1 - i % 2 if mistake == "wrong slot" else i % 2
        value = buffer[slot] * 2.0  # here: missing wait, wrong slot
        buffer[2 + i % 2] = value  # here: overwritten source
        if mistake == "out of bounds" and i == 7:
            row = jnp.minimum(i * 8, 56) + 8
            last = o_ref.at[pl.ds(pl.multiple_of(row, 8), 8)]
            pltpu.make_async_copy(buffer.at[3], last, sem_out.at[1]).start()  # here: out of bounds
        else:
            store(i).start()  # here: never waited
    if mistake == "overwritten source":
        for i in range(6):
            store(i).wait()
    store(6).wait()
    if mistake != "never waited":
        store(7).wait()


def copies(mistake=""):
    x = f32(64, 128)
    call = pl.pallas_call(
        functools.partial(copy_kernel, mistake),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[
            pltpu.VMEM((4, 8, 128), jnp.float32),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.SemaphoreType.DMA((2,)),
        ],
    )
    return call, [x], [x * 2]


def rows_kernel(mistake, x_ref, o_ref, sem):
    if mistake == "deadlock":
        pl.semaphore_wait(sem, 1)  # here: deadlock
    if mistake == "undrained":
        pl.semaphore_signal(sem, 1)  # here: undrained
    o_ref[...] = x_ref[...] + 1.0


def rows(mistake=""):
    x = f32(16, 128)
    call = pl.pallas_call(
        functools.partial(rows_kernel, mistake),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.SemaphoreType.REGULAR],
    )
    return call, [x], [x + 1]


def scratch_kernel(mistake, x_ref, o_ref, scratch):
    if mistake != "uninitialised":
        scratch[...] = x_ref[...]
    else:
        scratch[0:8, :] = x_ref[0:8, :]
    o_ref[...] = scratch[...] * 3.0


def scratch(mistake=""):
    x = f32(16, 128)
    call = pl.pallas_call(
        functools.partial(scratch_kernel, mistake),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32)],
    )
    return call, [x], [x * 3]


def large_kernel(x_ref, o_ref, scratch):
    scratch[0:16, :] = x_ref[...]
    o_ref[...] = scratch[0:16, :]


def large():
    """128 MiB of scratch memory, which no chip has room for."""
    x = f32(16, 128)
    call = pl.pallas_call(
        large_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((1 << 18, 128), jnp.float32)],
    )
    return call, [x], [x]


def mean_kernel(masked, x_ref, o_ref):
    x = x_ref[...]
    if masked:
        row = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0) + pl.program_id(0) * 8
        x = jnp.where(row < 20, x, 0.0)

    @pl.when(pl.program_id(0) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.broadcast_to(jnp.sum(x, axis=0, keepdims=True), o_ref.shape)


def column_sums(masked=True):
    x = f32(20, 128)
    call = pl.pallas_call(
        functools.partial(mean_kernel, masked),
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        grid=(3,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
    )
    return call, [x], [np.broadcast_to(x.sum(0, keepdims=True), (8, 128))]


def gather_kernel(index_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...]


def gather():
    x, index = f32(64, 128), np.array([3, 0, 7, 7, 2, 5], np.int32)
    call = pl.pallas_call(
        gather_kernel,
        out_shape=jax.ShapeDtypeStruct((48, 128), jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(6,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, index: (index[i], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, index: (i, 0)),
        ),
    )
    return call, [index, x], [x.reshape(8, 8, 128)[index].reshape(48, 128)]


def loop_kernel(x_ref, o_ref):
    def step(i, carry):
        total, count = carry
        total = total + x_ref[pl.ds(i * 8, 8), :]
        return total, count + 1

    total, count = jax.lax.fori_loop(0, 4, step, (jnp.zeros((8, 128), jnp.float32), 0))
    o_ref[...] = total * count.astype(jnp.float32)


def loop():
    x = f32(32, 128)
    call = pl.pallas_call(loop_kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))
    return call, [x], [x.reshape(4, 8, 128).sum(0) * 4]


def all_gather_kernel(x_ref, o_ref, send, receive, local):
    """Each device passes on to its right neighbour what it received from the left one."""
    me = jax.lax.axis_index("x")
    right, left = jax.lax.rem(me + 1, 4), jax.lax.rem(me + 3, 4)
    # Nobody copies into a device that has not begun.
    ready = pltpu.get_barrier_semaphore()
    for other in (left, right):
        pl.semaphore_signal(ready, 1, device_id=(other,), device_id_type=pl.DeviceIdType.MESH)
    pl.semaphore_wait(ready, 2)
    own = pltpu.make_async_copy(x_ref, o_ref.at[me], local)
    own.start()
    own.wait()
    for step in range(3):
        part = o_ref.at[jax.lax.rem(me - step + 4, 4)]
        copy = pltpu.make_async_remote_copy(
            src_ref=part, dst_ref=part, send_sem=send, recv_sem=receive, device_id=(right,),
            device_id_type=pl.DeviceIdType.MESH,
        )
        copy.start()
        copy.wait()


def all_gather():
    """On 4 devices: arrays have a first dimension with one index for each."""
    x = f32(4, 8, 128)
    call = pl.pallas_call(
        all_gather_kernel,
        out_shape=jax.ShapeDtypeStruct((4, 8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[pltpu.SemaphoreType.DMA] * 3,
        compiler_params=pltpu.CompilerParams(collective_id=0),
    )
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("x",))
    spec = jax.sharding.PartitionSpec("x")
    one = jax.shard_map(call, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    return lambda x: one(x.reshape(32, 128)), [x], [np.stack([x] * 4)]


# Name: how it is made, and the finding that it has.
KERNELS = {
    "softmax": (softmax, ""),
    "matmul": (matmul, ""),
    "copies": (copies, ""),
    "rows": (rows, ""),
    "scratch": (scratch, ""),
    "column_sums": (column_sums, ""),
    "gather": (gather, ""),
    "loop": (loop, ""),
    "copies_missing_wait": (lambda: copies("missing wait"), "TG040"),
    "copies_doubled_wait": (lambda: copies("doubled wait"), "TG050"),
    "copies_wrong_slot": (lambda: copies("wrong slot"), "TG040"),
    "copies_overwritten_source": (lambda: copies("overwritten source"), "TG041"),
    "copies_never_waited": (lambda: copies("never waited"), "TG051"),
    "copies_out_of_bounds": (lambda: copies("out of bounds"), "TG020"),
    "rows_deadlock": (lambda: rows("deadlock"), "TG053"),
    "rows_undrained": (lambda: rows("undrained"), "TG054"),
    "scratch_uninitialised": (lambda: scratch("uninitialised"), "TG030"),
    "column_sums_padding": (lambda: column_sums(False), "TG031"),
    "matmul_revisited": (lambda: matmul(inner_last=False), "TG062"),
    "large_scratch": (large, "TG002"),
    "all_gather": (all_gather, ""),
}


def main(folder):
    # Names of files, not of folders of this machine.
    jax.config.update("jax_num_cpu_devices", 4)
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    for name, (make, finding) in KERNELS.items():
        try:
            call, inputs, results = make()
            lowered = jax.jit(call).trace(*inputs).lower(lowering_platforms=("tpu",))
        except Exception as error:  # A kernel that JAX refuses is none to test.
            print(f"{name}: {type(error).__name__}: {error}")
            continue
        base = os.path.join(folder, name)
        with open(base + ".mlir", "w") as out:
            out.write(lowered.as_text())
        np.savez(base + ".npz", **{f"in{i}": x for i, x in enumerate(inputs)},
                 **{f"out{i}": y for i, y in enumerate(results)})
        with open(base + ".expected", "w") as out:
            out.write(finding + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
