"""What XLA:CPU gives for a dot of every combination of element types.

    python scripts/product_types.py > tests/data/product_types.txt

needs `jax[cpu]`. Each line is of two operands' types, then the results of the types that the
first line lists, in order: of the products of VALUES. tests/tests/all/product_types.rs holds
every target against it.
"""

import sys

import jax
import ml_dtypes
import numpy as np
from jax._src.lib import _jax, xla_client

TYPES = {
    "pred": np.bool_,
    "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "c64": np.complex64, "c128": np.complex128,
}  # fmt: skip


def values(name, side):
    """Small fractions for floats, the largest numbers for integers, whose sums wrap."""
    dtype = np.dtype(TYPES[name])
    fractions = np.array([[0.5, 0.5, 1.5, 2], [3, 2, -1, -0.25]][side])
    if dtype.kind == "b":
        return np.array([[1, 0, 1, 1], [1, 1, 1, 0]][side], bool)
    if dtype.kind in "iu":
        most, least = np.iinfo(dtype).max, np.iinfo(dtype).min
        last = [[most, most, least + 1, 3], [most, 5, 7, 2]][side]
        return np.array(last, np.int64 if dtype.kind == "i" else np.uint64).astype(dtype)
    if dtype.kind == "c":
        return (fractions + 1j * np.array([[1, 2, -0.5, 3], [0.5, 1, 1, -1]][side])).astype(dtype)
    return fractions.astype(dtype)


def main():
    jax.config.update("jax_enable_x64", True)
    device = jax.devices("cpu")[0]
    print("#", *TYPES)
    for lhs in TYPES:
        for rhs in TYPES:
            dots = "".join(
                f" d{i} = {ty}[] dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n"
                for i, ty in enumerate(TYPES)
            )
            shapes = ", ".join(f"{ty}[]" for ty in TYPES)
            names = ", ".join(f"d{i}" for i in range(len(TYPES)))
            text = (
                f"HloModule m\nENTRY e {{\n a = {lhs}[4] parameter(0)\n b = {rhs}[4] parameter(1)\n"
                f"{dots} ROOT t = ({shapes}) tuple({names})\n}}"
            )
            module = xla_client.hlo.hlo_module_from_text(text)
            proto = module.as_serialized_hlo_module_proto()
            stablehlo = xla_client._xla.mlir.hlo_to_stablehlo(proto)
            executable = device.client.compile_and_load(
                stablehlo, _jax.DeviceList((device,)), xla_client.CompileOptions()
            )
            arguments = [jax.device_put(values(*of), device) for of in ((lhs, 0), (rhs, 1))]
            results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
            row = []
            for [result] in results:
                array = np.asarray(result)
                if array.dtype.kind == "c":
                    row.append(f"{float(array.real)!r},{float(array.imag)!r}")
                elif array.dtype.kind in "biu":
                    row.append(str(int(array)))
                else:
                    row.append(repr(float(array)))
            print(lhs, rhs, *row)
        print(lhs, file=sys.stderr)


main()
