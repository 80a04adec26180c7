"""Mistakes in Pallas kernels: `python mistakes.py FOLDER` lowers each kernel below, and the same with
each mistake of `MISTAKES` in it (no TPU is needed).

A mistake replaces pieces of text in a kernel's own source, line by line, so that lines keep their
numbers. FOLDER gets `NAME.mlir` for each, `KERNEL.npz` with a kernel's inputs (and, where devices
run it together, a first dimension with one index for each), and `index.json`: name, kernel, devices,
the code that is found (none in a kernel without a mistake), and the line where it is.
"""

import inspect
import json
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh, PartitionSpec as P

ANY = pl.BlockSpec(memory_space=pl.ANY)
DMA = pltpu.SemaphoreType.DMA
REGULAR = pltpu.SemaphoreType.REGULAR
MESH = pl.DeviceIdType.MESH


def vmem(*shape, dtype=jnp.float32):
    return pltpu.VMEM(shape, dtype)


def call(kernel, shape, **options):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(shape, jnp.float32), **options)


def stream():
    """Doubles six blocks of rows, two buffers each way."""

    def kernel(x_ref, o_ref, ins, outs, sem_in, sem_out):
        def fetch(i):
            return pltpu.make_async_copy(
                x_ref.at[pl.ds(i * 8, 8)],
                ins.at[i % 2],
                sem_in.at[i % 2],
            )

        def store(i):
            return pltpu.make_async_copy(
                outs.at[i % 2],
                o_ref.at[pl.ds(i * 8, 8)],
                sem_out.at[i % 2],
            )

        fetch(0).start()
        for i in range(6):
            if i + 1 < 6:
                fetch(i + 1).start()
            fetch(i).wait()
            if i >= 2:
                store(i - 2).wait()
            outs[i % 2] = ins[i % 2] * 2.0
            store(i).start()
        store(4).wait()
        store(5).wait()

    scratch = [vmem(2, 8, 128), vmem(2, 8, 128), DMA((2,)), DMA((2,))]
    return call(kernel, (48, 128), in_specs=[ANY], out_specs=ANY, scratch_shapes=scratch), [(48, 128)]


def halves():
    """Copies into one buffer from two sides, out of it, and into it again."""

    def kernel(x_ref, y_ref, o_ref, buffer, sems):
        first = pltpu.make_async_copy(x_ref, buffer.at[pl.ds(0, 8)], sems.at[0])
        second = pltpu.make_async_copy(y_ref, buffer.at[pl.ds(8, 8)], sems.at[1])
        first.start()
        second.start()
        first.wait()
        second.wait()
        out = pltpu.make_async_copy(buffer, o_ref.at[pl.ds(0, 16)], sems.at[2])
        out.start()
        out.wait()
        again = pltpu.make_async_copy(y_ref, buffer.at[pl.ds(0, 8)], sems.at[0])
        again.start()
        again.wait()
        last = pltpu.make_async_copy(buffer, o_ref.at[pl.ds(16, 16)], sems.at[1])
        last.start()
        last.wait()

    scratch = [vmem(16, 128), DMA((3,))]
    made = call(kernel, (32, 128), in_specs=[ANY, ANY], out_specs=ANY, scratch_shapes=scratch)
    return made, [(8, 128), (8, 128)]


def tokens():
    """Counts that are raised and waited for."""

    def kernel(x_ref, o_ref, sems):
        pl.semaphore_signal(sems.at[0], 2)
        pl.semaphore_wait(sems.at[0], 1)
        o_ref[...] = x_ref[...] + 1.0
        pl.semaphore_wait(sems.at[0], 1)  # the last

    return call(kernel, (8, 128), scratch_shapes=[REGULAR((2,))]), [(8, 128)]


def totals():
    """Sums of columns, block by block; the last block reaches beyond the array."""

    def kernel(x_ref, o_ref):
        step = pl.program_id(0)
        row = lax.broadcasted_iota(jnp.int32, (8, 128), 0) + step * 8
        x = jnp.where(row < 20, x_ref[...], 0.0)

        @pl.when(step == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        column = jnp.sum(x, axis=0, keepdims=True)
        o_ref[...] += jnp.broadcast_to(column, (8, 128))

    specs = dict(
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
    )
    return call(kernel, (8, 128), grid=(3,), **specs), [(20, 128)]


def product():
    """A product of matrices, blocks summed up in scratch memory."""

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == 1)
        def _():
            o_ref[...] = acc_ref[...]

    specs = dict(
        in_specs=[
            pl.BlockSpec((8, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, 128), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((8, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[vmem(8, 128)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )
    return call(kernel, (16, 256), grid=(2, 2, 2), **specs), [(16, 256), (256, 256)]


def gather():
    """Rows that scalars choose, each copied by hand."""

    def kernel(index_ref, x_ref, o_ref, buffer, sem):
        def step(i, carry):
            start = pl.multiple_of(index_ref[i] * 8, 8)
            copy = pltpu.make_async_copy(x_ref.at[pl.ds(start, 8)], buffer, sem)
            copy.start()
            copy.wait()
            o_ref[pl.ds(pl.multiple_of(i * 8, 8), 8), :] = buffer[...]
            return carry

        lax.fori_loop(0, 4, step, 0)

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(1,), in_specs=[ANY],
        out_specs=pl.BlockSpec((32, 128), lambda i, index: (0, 0)),
        scratch_shapes=[vmem(8, 128), DMA(())],
    )
    return call(kernel, (32, 128), grid_spec=spec), ["index", (64, 128)]


def lanes():
    """Loads and stores at places that scalars choose."""

    def kernel(index_ref, x_ref, h_ref, o_ref):
        column = pl.multiple_of(index_ref[0] * 128, 128)
        row = pl.multiple_of(index_ref[1] * 16, 16)
        wide = x_ref[:, pl.ds(column, 128)]
        half = h_ref[pl.ds(row, 16), :].astype(jnp.float32)
        o_ref[...] = wide + half

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(1,),
        in_specs=[
            pl.BlockSpec((16, 512), lambda i, index: (0, 0)),
            pl.BlockSpec((64, 128), lambda i, index: (0, 0)),
        ],
        out_specs=pl.BlockSpec((16, 128), lambda i, index: (0, 0)),
    )
    return call(kernel, (16, 128), grid_spec=spec), ["index", (16, 512), "half"]


def running():
    """Sums of all blocks so far, carried in scratch memory; steps are counted in SMEM."""

    def kernel(x_ref, o_ref, sum_ref, count_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            sum_ref[...] = jnp.zeros_like(sum_ref)
            count_ref[0] = 0

        count_ref[0] += 1
        sum_ref[...] += x_ref[...]
        o_ref[...] = sum_ref[...] * count_ref[0].astype(jnp.float32)

    specs = dict(
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        scratch_shapes=[vmem(8, 128), pltpu.SMEM((1,), jnp.int32)],
    )
    return call(kernel, (32, 128), grid=(4,), **specs), [(32, 128)]


def scoped():
    """Memory and semaphores for a part of the kernel."""

    def kernel(x_ref, o_ref):
        def part(buffer, sem):
            copy = pltpu.make_async_copy(x_ref, buffer, sem)
            copy.start()
            copy.wait()
            o_ref[...] = buffer[...] * 3.0

        pl.run_scoped(part, vmem(8, 128), DMA(()))

    return call(kernel, (8, 128), in_specs=[ANY]), [(8, 128)]


def ring():
    """Gathers the parts of all devices, each passing on what it received."""

    def kernel(x_ref, o_ref, send, receive, local):
        me = lax.axis_index("x")
        right, left = lax.rem(me + 1, 4), lax.rem(me + 3, 4)
        ready = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(ready, 1, device_id=(left,), device_id_type=MESH)
        pl.semaphore_signal(ready, 1, device_id=(right,), device_id_type=MESH)
        pl.semaphore_wait(ready, 2)
        own = pltpu.make_async_copy(x_ref, o_ref.at[me], local)
        own.start()
        own.wait()
        for step in range(3):
            slot = lax.rem(me - step + 4, 4)
            copy = pltpu.make_async_remote_copy(
                src_ref=o_ref.at[slot],
                dst_ref=o_ref.at[slot],
                send_sem=send,
                recv_sem=receive,
                device_id=(right,), device_id_type=MESH,
            )
            copy.start()
            copy.wait()

    options = dict(
        in_specs=[ANY], out_specs=ANY, scratch_shapes=[DMA(()), DMA(()), DMA(())],
        compiler_params=pltpu.CompilerParams(collective_id=0),
    )
    return call(kernel, (4, 8, 128), **options), [(8, 128)]


def shuttle():
    """Every device sends its right neighbour four blocks, through two slots that are freed."""

    def kernel(x_ref, o_ref, inbox, send, receive, free):
        me = lax.axis_index("x")
        right, left = lax.rem(me + 1, 4), lax.rem(me + 3, 4)
        ready = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(ready, 1, device_id=(left,), device_id_type=MESH)
        pl.semaphore_signal(ready, 1, device_id=(right,), device_id_type=MESH)
        pl.semaphore_wait(ready, 2)
        for step in range(4):
            slot = step % 2
            if step >= 2:
                pl.semaphore_wait(free, 1)
            copy = pltpu.make_async_remote_copy(
                src_ref=x_ref.at[pl.ds(step * 8, 8)],
                dst_ref=inbox.at[slot],
                send_sem=send.at[slot],
                recv_sem=receive.at[slot],
                device_id=(right,), device_id_type=MESH,
            )
            copy.start()
            copy.wait()
            o_ref[pl.ds(step * 8, 8), :] = inbox[slot] + 1.0
            if step < 2:
                pl.semaphore_signal(free, 1, device_id=(left,), device_id_type=MESH)

    options = dict(
        in_specs=[ANY],
        scratch_shapes=[vmem(2, 8, 128), DMA((2,)), DMA((2,)), REGULAR],
        compiler_params=pltpu.CompilerParams(collective_id=1),
    )
    return call(kernel, (32, 128), **options), [(32, 128)]


KERNELS = {
    make.__name__: (make, devices)
    for make, devices in [
        (stream, 1), (halves, 1), (tokens, 1), (totals, 1), (product, 1), (gather, 1), (lanes, 1),
        (running, 1), (scoped, 1), (ring, 4), (shuttle, 4),
    ]
}

USE = "outs[i % 2] = ins[i % 2] * 2.0"
# Kernel, name, code, where it is found (a piece of that line's text; none: no line of its own), and
# pairs of what is replaced by what.
MISTAKES = [
    ("stream", "fetch not waited for", "TG040", USE, [("fetch(i).wait()", "pass")]),
    ("stream", "other slot waited for", "TG040", USE, [("fetch(i).wait()", "fetch(0).wait()")]),
    ("stream", "wait one too early", "TG040", USE,
     [("fetch(i).wait()", "fetch(max(i - 1, 0)).wait() if i < 2 else None")]),
    ("stream", "store not waited for", "TG041", USE, [("store(i - 2).wait()", "pass")]),
    ("stream", "store waited for too late", "TG041", USE,
     [("if i >= 2:", "if i >= 3:"), ("store(i - 2).wait()", "store(i - 3).wait()"),
      ("store(4).wait()", "store(3).wait(); store(4).wait()")]),
    ("stream", "slot of the next block read", "TG040", USE, [("= ins[i % 2] * 2.0", "= ins[(i + 1) % 2] * 2.0")]),
    ("stream", "one slot written", "TG041", USE, [("outs[i % 2] = ins", "outs[0] = ins")]),
    ("stream", "last store not waited for", "TG051", "store(i).start()", [("store(5).wait()", "pass")]),
    ("stream", "store waited for twice", "TG050", "store(5).wait()", [("store(4).wait()", "store(5).wait()")]),
    ("stream", "block not fetched", "TG050", "fetch(i).wait()", [("if i + 1 < 6:", "if i + 1 < 5:")]),
    ("stream", "block fetched into a slot in use", "TG042", "fetch(i + 1).start()",
     [("fetch(i + 1).start()", "fetch(min(i + 2, 5)).start()")]),
    ("stream", "all fetched into one slot", "TG042", "fetch(i + 1).start()", [("ins.at[i % 2],", "ins.at[0],")]),
    ("stream", "written after the store began", "TG041", "store(i).start()",
     [("store(i).start()", "store(i).start(); outs[i % 2] = ins[i % 2]")]),
    ("stream", "two stores to the same rows", "TG042", "store(i).start()",
     [("o_ref.at[pl.ds(i * 8, 8)]", "o_ref.at[pl.ds(i // 2 * 8, 8)]")]),
    ("stream", "half of a block computed", "TG030", "store(i).start()",
     [(USE, "outs[i % 2, 0:4] = ins[i % 2, 0:4] * 2.0")]),
    ("stream", "one row too far", "TG020", "fetch(i + 1).start()",
     [("x_ref.at[pl.ds(i * 8, 8)]", "x_ref.at[pl.ds(pl.multiple_of(jnp.int32(i * 8 + 8), 8), 8)]")]),
    ("stream", "stored one row too far", "TG020", "store(i).start()",
     [("o_ref.at[pl.ds(i * 8, 8)]", "o_ref.at[pl.ds(pl.multiple_of(jnp.int32(i * 8 + 8), 8), 8)]")]),
    ("stream", "source of a fetch for a store", "TG030", "store(i).start()", [("outs.at[i % 2],", "outs.at[1 - i % 2],")]),
    ("halves", "both into one half", "TG042", "second.start()", [("y_ref, buffer.at[pl.ds(8, 8)]", "y_ref, buffer.at[pl.ds(0, 8)]")]),
    ("halves", "first not waited for", "TG040", "out.start()", [("first.wait()", "pass")]),
    ("halves", "second not waited for", "TG040", "out.start()", [("second.wait()", "pass")]),
    ("halves", "overwritten while copied out", "TG041", "again.start()", [("out.wait()", "pass")]),
    ("halves", "copied out while overwritten", "TG040", "last.start()", [("again.wait()", "pass")]),
    ("halves", "last not waited for", "TG051", "last.start()", [("last.wait()", "pass")]),
    ("halves", "one waited for twice", "TG050", "second.wait()", [("second.wait()", "first.wait()")]),
    ("halves", "second not begun", "TG050", "second.wait()", [("second.start()", "pass")]),
    ("halves", "out waited for too late", "TG041", "again.start()",
     [("out.wait()", "pass"), ("last.wait()", "last.wait(); out.wait()")]),
    ("halves", "results overlap", "TG042", "last.start()",
     [("out.wait()", "pass"), ("again.start()", "pass"), ("again.wait()", "out.wait() if False else None"),
      ("o_ref.at[pl.ds(16, 16)]", "o_ref.at[pl.ds(0, 16)]"), ("last.wait()", "last.wait(); out.wait()")]),
    ("tokens", "waits for too much", "TG053", "pl.semaphore_wait(sems.at[0], 1)", [("pl.semaphore_wait(sems.at[0], 1)\n", "pl.semaphore_wait(sems.at[0], 3)\n")]),
    ("tokens", "never taken", "TG054", "pl.semaphore_signal", [("pl.semaphore_wait(sems.at[0], 1)  # the last", "pass")]),
    ("tokens", "raised too little", "TG053", "# the last", [("sems.at[0], 2", "sems.at[0], 1")]),
    ("tokens", "another one raised", "TG053", "pl.semaphore_wait(sems.at[0], 1)", [("pl.semaphore_signal(sems.at[0]", "pl.semaphore_signal(sems.at[1]")]),
    ("tokens", "raised too much", "TG054", "pl.semaphore_signal", [("sems.at[0], 2", "sems.at[0], 3")]),
    ("totals", "mask too wide", "TG031", "jnp.sum", [("row < 20", "row < 24")]),
    ("totals", "no mask", "TG031", "jnp.sum", [("jnp.where(row < 20, x_ref[...], 0.0)", "x_ref[...]")]),
    ("totals", "mask without the block's place", "TG031", "jnp.sum", [("+ step * 8", "+ 0 * step")]),
    ("totals", "never zeroed", "TG030", "o_ref[...] +=", [("step == 0", "step == 5")]),
    ("product", "summed up from nothing", "TG030", "acc_ref[...] +=", [("pl.program_id(2) == 0", "pl.program_id(2) == 2")]),
    ("product", "result's block by the inner dimension", "TG062", None, [("pl.BlockSpec((8, 128), lambda i, j, k: (i, j))", "pl.BlockSpec((8, 128), lambda i, j, k: (i, k))")]),
    ("product", "one column of blocks", "TG030", None, [("pl.BlockSpec((8, 128), lambda i, j, k: (i, j))", "pl.BlockSpec((8, 128), lambda i, j, k: (i, 0))")]),
    ("product", "window one block too far", "TG020", None, [("(i, k))", "(i, k + 1))")]),
    ("product", "sum over a parallel dimension", "TG042", None, [('"arbitrary")', '"parallel")')]),
    ("product", "scratch memory too large", "TG002", None, [("scratch_shapes=[vmem(8, 128)]", "scratch_shapes=[vmem(8, 128), vmem(65536, 128)]"),
      ("o_ref, acc_ref):", "o_ref, acc_ref, _):")]),
    ("gather", "false claim", "TG011", "start = ", [("index_ref[i] * 8, 8", "index_ref[i] * 4, 8")]),
    ("gather", "one block too far", "TG020", "copy.start()", [("index_ref[i] * 8, 8", "index_ref[i] * 8 + 8, 8")]),
    ("gather", "not waited for", "TG040", "= buffer[...]", [("copy.wait()", "pass")]),
    ("gather", "scalars past their end", "TG020", "start = ", [("index_ref[i] * 8", "index_ref[i + 1] * 8")]),
    ("lanes", "lanes not aligned", "TG011", "wide = ", [("pl.multiple_of(index_ref[0] * 128, 128)", "index_ref[0] * 100")]),
    ("lanes", "packed rows not aligned", "TG011", "half = ", [("pl.multiple_of(index_ref[1] * 16, 16)", "index_ref[1] * 3")]),
    ("lanes", "lanes past the end", "TG020", "wide = ", [("index_ref[0] * 128, 128", "index_ref[0] * 128 + 128, 128")]),
    ("running", "carried from nothing", "TG030", "sum_ref[...] +=", [("sum_ref[...] = jnp.zeros_like(sum_ref)", "pass")]),
    ("running", "count from nothing", "TG030", "count_ref[0] += 1", [("count_ref[0] = 0", "pass")]),
    ("running", "result read first", "TG030", "o_ref[...] = ", [("o_ref[...] = sum_ref[...]", "o_ref[...] = o_ref[...] + sum_ref[...]")]),
    ("running", "SMEM too small", "TG003", None, [("pltpu.SMEM((1,)", "pltpu.SMEM((524288,)")]),
    ("running", "blocks skipped", "TG030", None, [("out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0))", "out_specs=pl.BlockSpec((8, 128), lambda i: (lax.div(i, 2), 0))")]),
    ("scoped", "copy outlives its memory", "TG060", None, [("copy.wait()", "pass"), ("buffer[...] * 3.0", "jnp.ones((8, 128), jnp.float32)")]),
    ("scoped", "not waited for", "TG040", "o_ref[...] = ", [("copy.wait()", "pass")]),
    ("ring", "barrier waits for too much", "TG053", "pl.semaphore_wait(ready", [("(ready, 2)", "(ready, 3)")]),
    ("ring", "barrier not drained", "TG054", None, [("(ready, 2)", "(ready, 1)")]),
    ("ring", "arrival not waited for", "TG040", "copy.start()", [("copy.wait()", "copy.wait_send()")]),
    ("ring", "sending not waited for", "TG051", "copy.start()", [("copy.wait()", "copy.wait_recv()")]),
    ("ring", "sent the wrong way", "TG030", "copy.start()", [("device_id=(right,), device_id_type=MESH,", "device_id=(left,), device_id_type=MESH,")]),
    ("ring", "no such device", "TG020", "copy.start()", [("device_id=(right,), device_id_type=MESH,", "device_id=(me + 1,), device_id_type=MESH,")]),
    ("ring", "own part not waited for", "TG040", "copy.start()", [("own.wait()", "pass")]),
    ("ring", "one step too few", "TG030", None, [("range(3)", "range(2)")]),
    ("ring", "sent to itself", "TG041", "copy.start()", [("device_id=(right,), device_id_type=MESH,", "device_id=(me,), device_id_type=MESH,")]),
    ("ring", "all into one slot", "TG042", "copy.start()", [("dst_ref=o_ref.at[slot]", "dst_ref=o_ref.at[0]")]),
    ("ring", "no barrier's signal", "TG053", "pl.semaphore_wait(ready", [("pl.semaphore_signal(ready, 1, device_id=(left,), device_id_type=MESH)", "pass")]),
    ("shuttle", "slot used before it is free", "TG042", "copy.start()", [("pl.semaphore_wait(free, 1)", "pass")]),
    ("shuttle", "slot freed too early", "TG041", "copy.start()",
     [("copy.wait()", "copy.wait(); pl.semaphore_signal(free, 1, device_id=(left,), device_id_type=MESH) if step < 2 else None"),
      ("            if step < 2:", "            if step < 0:")]),
    ("shuttle", "slot never freed", "TG053", "pl.semaphore_wait(free", [("            if step < 2:", "            if step < 0:")]),
    ("shuttle", "freed too often", "TG054", None, [("            if step < 2:", "            if step < 3:")]),
    ("shuttle", "one slot", "TG042", "copy.start()", [("slot = step % 2", "slot = 0")]),
    ("shuttle", "other slot read", "TG040", "inbox[slot] + 1.0", [("inbox[slot] + 1.0", "inbox[1 - slot] + 1.0")]),
    ("shuttle", "arrival not waited for", "TG040", "inbox[slot] + 1.0", [("copy.wait()", "copy.wait_send()")]),
    ("shuttle", "both wait first", "TG053", "pl.semaphore_wait(free", [("if step >= 2:", "if step >= 0:")]),
]


def arrays(name, shapes, devices):
    """A kernel's inputs: the same in every run."""
    made = []
    for number, shape in enumerate(shapes):
        numbers = np.random.default_rng(100 * len(name) + number)
        if shape == "index":
            made.append(np.array([3, 2, 7, 0] if name == "gather" else [3, 3], np.int32))
        elif shape == "half":
            made.append(numbers.standard_normal((64, 128)).astype(jnp.bfloat16))
        else:
            stacked = shape if devices == 1 else (devices, *shape)
            made.append(numbers.standard_normal(stacked, dtype=np.float32))
    return made


def lowered(make, devices, inputs):
    call, _ = make()
    if devices > 1:
        mesh = Mesh(np.array(jax.devices()[:devices]), ("x",))
        call = jax.shard_map(call, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
        inputs = [x.reshape(-1, *x.shape[2:]) for x in inputs]
    return jax.jit(call).trace(*inputs).lower(lowering_platforms=("tpu",)).as_text()


def changed(make, pairs):
    """The kernel with a mistake: its lines keep their numbers."""
    text, first = inspect.getsource(make), inspect.getsourcelines(make)[1]
    for old, new in pairs:
        if text.count(old) != 1:
            raise ValueError(f"{make.__name__} has {old!r} {text.count(old)} times")
        text = text.replace(old, new)
    names = dict(globals())
    exec(compile("\n" * (first - 1) + text, os.path.abspath(__file__), "exec"), names)
    return names[make.__name__]


def line_of(make, piece):
    lines, first = inspect.getsourcelines(make)
    found = [first + at for at, line in enumerate(lines) if piece in line]
    return found[0]


def main(folder):
    # Names of files, not of folders of this machine.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    jax.config.update("jax_num_cpu_devices", 4)
    index = []

    def write(name, kernel, text, code, line):
        with open(os.path.join(folder, name + ".mlir"), "w") as out:
            out.write(text)
        _, devices = KERNELS[kernel]
        index.append(dict(name=name, kernel=kernel, devices=devices, code=code, line=line))

    inputs = {}
    for name, (make, devices) in KERNELS.items():
        inputs[name] = arrays(name, make()[1], devices)
        named = {
            f"in{i}": x.view(np.uint16) if x.dtype == jnp.bfloat16 else x
            for i, x in enumerate(inputs[name])
        }
        np.savez_compressed(os.path.join(folder, name + ".npz"), **named)
        write(name, name, lowered(make, devices, inputs[name]), None, None)
    for kernel, title, code, piece, pairs in MISTAKES:
        make, devices = KERNELS[kernel]
        name = f"{kernel}_{title.replace(' ', '_').replace(chr(39), '')}"
        try:
            text = lowered(changed(make, pairs), devices, inputs[kernel])
        except Exception as error:  # JAX itself may refuse a kernel: none to test.
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
            continue
        write(name, kernel, text, code, line_of(make, piece) if piece else None)
    with open(os.path.join(folder, "index.json"), "w") as out:
        json.dump(index, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
