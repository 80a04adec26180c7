"""Lowers the kernels of this folder with JAX 0.10.2: `JAX_PLATFORMS=cpu python kernels.py` writes
NAME.mlir beside this file, with the lines of this file as places. `all/pallas.rs` runs them.
"""

import os

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import tpu_custom_call
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

HERE = os.path.dirname(os.path.abspath(__file__))
F32, I32, BF16, I8 = jnp.float32, jnp.int32, jnp.bfloat16, jnp.int8
ANY = pl.BlockSpec(memory_space=pl.ANY)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
X = jax.ShapeDtypeStruct((8, 128), F32)
DMA = pltpu.SemaphoreType.DMA


def lower(name, kernel, out, *given, **call):
    text = []
    before = tpu_custom_call._lower_mosaic_module_to_asm

    def keep(module, *args, **kwargs):
        text.append(module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True))
        return before(module, *args, **kwargs)

    tpu_custom_call._lower_mosaic_module_to_asm = keep
    try:
        call = pl.pallas_call(kernel, out_shape=out, **call)
        jax.jit(call).trace(*given).lower(lowering_platforms=("tpu",))
    finally:
        tpu_custom_call._lower_mosaic_module_to_asm = before
    short = text[0].replace(HERE + "/", "")
    with open(os.path.join(HERE, f"{name}.mlir"), "w") as file:
        file.write(short)


def finite(x, o):
    o[...] = jnp.where(jnp.isfinite(x[...]), x[...], 0.0)


lower("finite", finite, X, X)


def read_early(x, o, buffer, sem):
    buffer[...] = x[...]
    total = x[...]

    def body(i, total):
        copy = pltpu.make_async_copy(buffer, o, sem)
        copy.start()
        total = total + o[...]  # read before the copy is waited for
        copy.wait()
        return total

    o[...] = lax.fori_loop(0, 3, body, total)


lower("read_early", read_early, X, X, scratch_shapes=[pltpu.VMEM((8, 128), F32), DMA])


def too_far(x, scalars, o):
    def body(i, _):
        o[pl.ds(i * 8, 8), :] = x[pl.ds(i * 8 + 8, 8), :] + scalars[i * 3].astype(F32)
        return 0

    lax.fori_loop(0, 2, body, 0)


WIDE = jax.ShapeDtypeStruct((16, 128), F32)
BLOCK = pl.BlockSpec((16, 128), lambda i: (i, 0))
lower("too_far", too_far, WIDE, WIDE, jax.ShapeDtypeStruct((3,), I32), grid=(1,),
      in_specs=[BLOCK, SMEM], out_specs=BLOCK)


def send(device, x, o, sent, arrived):
    copy = pltpu.make_async_remote_copy(
        x, o, sent, arrived, device_id=device[0], device_id_type=pl.DeviceIdType.LOGICAL
    )
    copy.start()
    copy.wait_recv()


lower("send", send, X, jax.ShapeDtypeStruct((1,), I32), X, in_specs=[SMEM, ANY], out_specs=ANY,
      scratch_shapes=[DMA, DMA], compiler_params=pltpu.CompilerParams(has_side_effects=True))


def says(x, o):
    i = pl.program_id(0)
    pl.debug_print("step {} of {}", i, pl.num_programs(0))
    pl.debug_print("first", x[0, 0])
    pl.debug_print("row {}", x[0, :2])
    pl.debug_check(i < 1, "too many steps")  # fails at the second step
    o[...] = x[...]


with pl.enable_debug_checks():
    lower("says", says, jax.ShapeDtypeStruct((16, 128), F32), jax.ShapeDtypeStruct((16, 128), F32),
          grid=(2,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
          out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)))


def product(x, y, o):
    o[...] = lax.dot_general(x[...], y[...], (((1,), (0,)), ((), ())), preferred_element_type=F32)


lower("mixed_product", product, jax.ShapeDtypeStruct((16, 128), F32),
      jax.ShapeDtypeStruct((16, 128), BF16), jax.ShapeDtypeStruct((128, 128), I8))
lower("integer_product", product, jax.ShapeDtypeStruct((32, 128), F32),
      jax.ShapeDtypeStruct((32, 128), I8), jax.ShapeDtypeStruct((128, 128), I8))


def rounds(x, bits, o):
    o[...] = pltpu.stochastic_round(x[...], bits[...], target_dtype=BF16)


lower("rounds", rounds, jax.ShapeDtypeStruct((16, 128), BF16),
      jax.ShapeDtypeStruct((16, 128), F32), jax.ShapeDtypeStruct((16, 128), jnp.uint32))


def sized(place, x, o, buffer, sem):
    size = pl.multiple_of(place[1], 8)
    start = pl.multiple_of(place[0], 8)
    copy = pltpu.make_async_copy(x.at[1, pl.ds(start, size)], buffer.at[pl.ds(0, size)], sem)
    copy.start()
    copy.wait()
    copy = pltpu.make_async_copy(buffer.at[pl.ds(0, size)], o.at[pl.ds(start, size)], sem)
    copy.start()
    copy.wait()


lower("sized", sized, jax.ShapeDtypeStruct((64, 128), F32), jax.ShapeDtypeStruct((2,), I32),
      jax.ShapeDtypeStruct((2, 64, 128), F32), in_specs=[SMEM, ANY], out_specs=ANY,
      scratch_shapes=[pltpu.VMEM((32, 128), F32), DMA])


def reshaped(place, x, pages, o, buffer, sem):
    tiles, slots = x.reshape(8, 8, 256), buffer.reshape(4, 8, 128)
    buffer[...] = jnp.zeros_like(buffer)
    copy = pltpu.make_async_copy(
        tiles.at[pl.ds(place[0], place[1]), :, 128:256], slots.at[pl.ds(1, place[1])], sem
    )
    copy.start()
    copy.wait()
    rows = pages.reshape(64, 2, 128)
    copy = pltpu.make_async_copy(rows.at[pl.ds(place[2], place[3])], o.at[pl.ds(0, place[3])], sem)
    copy.start()  # rows of one page
    copy.wait()
    last = pltpu.make_async_copy(buffer.reshape(16, 2, 128), o.at[pl.ds(16, 16)], sem)
    last.start()
    last.wait()


lower("reshaped", reshaped, jax.ShapeDtypeStruct((32, 2, 128), F32),
      jax.ShapeDtypeStruct((4,), I32), jax.ShapeDtypeStruct((64, 256), F32),
      jax.ShapeDtypeStruct((4, 16, 2, 128), F32), in_specs=[SMEM, ANY, ANY], out_specs=ANY,
      scratch_shapes=[pltpu.VMEM((32, 128), F32), DMA])


def slots(x, o, buffer, sems):
    halves = buffer.reshape(2, 16, 128)

    def fetch(i):
        half = buffer.at[pl.ds(i % 2 * 16, 16)]
        return pltpu.make_async_copy(x.at[pl.ds(i * 16, 16)], half, sems.at[i % 2])

    fetch(0).start()
    for i in range(4):
        if i < 3:
            fetch(i + 1).start()
        fetch(i).wait()
        # Also the rows of one half in steps, while the other half is copied.
        o[pl.ds(i * 16, 8)] = halves[i % 2, :8] * 2.0
        o[pl.ds(i * 16 + 8, 8)] = buffer[pl.ds(i % 2 * 16, 8, 2), :]


lower("slots", slots, jax.ShapeDtypeStruct((64, 128), F32), jax.ShapeDtypeStruct((64, 128), F32),
      in_specs=[ANY], scratch_shapes=[pltpu.VMEM((32, 128), F32), DMA((2,))])


def again(x, o):
    o[...] = x[pl.ds(3, 8, 0), :]


lower("again", again, X, X)


def selected(x, o, total):
    total[...] += x[...]  # summed up from nothing
    mask = lax.broadcasted_iota(I32, (8, 128), 0) < 8
    o[...] = jnp.where(mask, total[...], o[...])


lower("selected", selected, X, X, scratch_shapes=[pltpu.VMEM((8, 128), F32)])


def copied(x, o):
    o[...] = x[...]


# Two orders of blocks that statements compute; in the second all points of the parallel dimension
# write the same ones.
for name, order in (("in_halves", lambda g, i: (lax.rem(g + 1, 2) * 2 + i, 0)),
                    ("in_one_half", lambda g, i: (lax.rem(i + 1, 2), 0))):
    lower(name, copied, jax.ShapeDtypeStruct((32, 128), F32), jax.ShapeDtypeStruct((32, 128), F32),
          grid=(2, 2), in_specs=[pl.BlockSpec((8, 128), lambda g, i: (g * 2 + i, 0))],
          out_specs=pl.BlockSpec((8, 128), order),
          compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")))


def regrouped(place, x, pages, o, buffer, rows, packed, sem):
    # Rows of a dimension that was split, to a buffer that has both dimensions.
    buffer[...] = jnp.zeros_like(buffer)
    copy = pltpu.make_async_copy(
        x.reshape(8, 8, 128).at[pl.ds(place[0], place[1])], buffer.at[pl.ds(0, place[1])], sem
    )
    copy.start()
    copy.wait()
    o[:32] = buffer[...].reshape(32, 128)
    # Two pages, and one wait for the bytes of all of their rows.
    both = pages.reshape(64, 2, 128)
    for i in range(2):
        source = both.at[pl.ds(place[2 + i] * 16, place[4])]
        pltpu.make_async_copy(source, rows.at[pl.ds(i * 16, place[4])], sem).start()
    whole = both.at[pl.ds(0, 2 * place[4])]
    pltpu.make_async_copy(whole, whole, sem).wait()
    o[32:] = rows[:16].reshape(32, 128) + rows[16:].reshape(32, 128)
    # Every second word of two halves.
    words = packed.bitcast(I32)
    words[pl.ds(0, 8, 2)] = jnp.full((8, 128), 0x3F803F80, I32)
    words[pl.ds(1, 8, 2)] = jnp.full((8, 128), 0x40004000, I32)
    o[:32] += packed[...].astype(F32)


lower("regrouped", regrouped, jax.ShapeDtypeStruct((64, 128), F32),
      jax.ShapeDtypeStruct((5,), I32), jax.ShapeDtypeStruct((64, 128), F32),
      jax.ShapeDtypeStruct((4, 16, 2, 128), F32), in_specs=[SMEM, ANY, ANY],
      scratch_shapes=[pltpu.VMEM((4, 8, 128), F32), pltpu.VMEM((32, 2, 128), F32),
                      pltpu.VMEM((32, 128), BF16), DMA])


def gathered(place, table, o, buffer, sem):
    # Rows that are copied one by one, and one wait for as many rows as the last scalar says.
    for i in range(12):
        pltpu.make_async_copy(table.at[place[i], pl.ds(0, 64)], buffer.at[i, :], sem).start()
    rows = buffer.at[pl.ds(0, place[12])]
    pltpu.make_async_copy(rows, rows, sem).wait()  # for all rows
    o[...] = buffer[...] * 2.0  # read after all rows


lower("gathered", gathered, jax.ShapeDtypeStruct((12, 64), F32), jax.ShapeDtypeStruct((13,), I32),
      jax.ShapeDtypeStruct((32, 64), F32), in_specs=[SMEM, ANY],
      scratch_shapes=[pltpu.VMEM((12, 64), F32), DMA])


def states(counts, x, o, buffer, sem):
    # The wait's rows are those of all copies, which are more than its memory has.
    total = counts[4]
    for i in range(4):
        count = counts[i]
        total += count
        target = buffer.at[i, pl.ds(0, count)]
        pltpu.make_async_copy(x.at[i, pl.ds(3 - count, count)], target, sem).start()
    rows = buffer.at[0, pl.ds(0, total)]
    pltpu.make_async_copy(rows, rows, sem).wait()  # for all states
    o[...] = buffer[...].reshape(12, 128)  # read after all states


lower("states", states, jax.ShapeDtypeStruct((12, 128), F32), jax.ShapeDtypeStruct((5,), I32),
      jax.ShapeDtypeStruct((4, 3, 1, 128), F32), in_specs=[SMEM, ANY],
      scratch_shapes=[pltpu.VMEM((4, 3, 1, 128), F32), DMA])
