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
