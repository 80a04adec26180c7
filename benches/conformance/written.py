"""Tests the StableHLO that Tegula writes: XLA must accept it and compute the same as from HLO."""

import re

import jax
import ml_dtypes
import numpy as np
from jax._src import xla_bridge
from jax._src.interpreters import mlir
from jax._src.lib import _jax, xla_client
from jaxlib.mlir import ir

import judged

jax.config.update("jax_enable_x64", True)
# XLA computes both results, so they may differ only by the order of sums.
UNITS = 16


def programs(arguments):
    """The texts, by name."""
    found = {}
    for path in arguments.modules:
        for file in sorted(path.rglob("*.mlir")) if path.is_dir() else [path]:
            found[file.stem] = file
    return found


def own(array, like):
    """An array of an npz file, as its own type if numpy stores that as integers."""
    return array if array.dtype == like else array.view(like)


def parameters(text):
    """The sizes and types of the parameters of `main`."""
    signature = re.search(r'sym_name = "main".*?function_type = \((.*?)\) ->|@main\((.*?)\) ->', text, re.S)
    types = re.findall(r"tensor<((?:\d+x)*)([^>]+>?)>", signature[1] or signature[2] or "")
    return [([int(n) for n in sizes.split("x") if n], numpy_type(element)) for sizes, element in types]


def inputs(text, npz):
    """The inputs in a file; small numbers if there is none."""
    rng = np.random.RandomState(0)
    for place, (sizes, dtype) in enumerate(parameters(text)):
        if f"in{place}" in npz.files:
            yield own(npz[f"in{place}"], dtype)
        elif dtype.kind in "biu":
            yield rng.randint(0, 2, sizes).astype(dtype)
        else:
            yield (rng.randn(*sizes) * 0.1).astype(dtype)


def numpy_type(element):
    if element.startswith("complex"):
        return np.dtype("complex64" if "f32" in element else "complex128")
    if re.match(r"f\dE", element):
        return np.dtype(getattr(ml_dtypes, "float" + element[1:].lower().replace("e", "_e", 1)))
    if element in ("i2", "i4", "ui2", "ui4"):
        return np.dtype(getattr(ml_dtypes, element.replace("i", "int", 1)))
    known = {"i1": "bool", "bf16": ml_dtypes.bfloat16, "f16": "float16", "f32": "float32", "f64": "float64"}
    return np.dtype(known.get(element) or element.replace("i", "int", 1))


def results(program, given):
    """XLA:CPU's results for a StableHLO program."""
    backend = xla_bridge.get_backend("cpu")
    devices = _jax.DeviceList(tuple(backend.local_devices()[:1]))
    executable = backend.compile_and_load(program, devices, _jax.CompileOptions())
    placed = [jax.device_put(array) for array in given]
    arrays = executable.execute_sharded(placed).disassemble_into_single_device_arrays()
    return [np.asarray(array[0]) for array in arrays]


def judge(name, file, arguments):
    text = file.read_text()
    try:
        with mlir.make_ir_context():
            ir.Module.parse(text).operation.verify()
    except Exception as error:
        return "refused", f"XLA refuses it: {error}"[:300]
    with np.load(file.with_suffix(".npz")) as npz:
        given = list(inputs(text, npz))
    hlo = file.with_suffix(".hlo").read_text()
    try:
        module = xla_client.hlo.hlo_module_from_text(hlo)
        proto = module.as_serialized_hlo_module_proto()
        as_hlo = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(proto))
        expected = results(as_hlo, given)
    except Exception as error:
        return "not xla's", f"as HLO: {error}"[:200]
    try:
        found = results(text, given)
    except Exception as error:
        return "differs", f"XLA runs it as HLO, but not as written: {error}"[:300]
    if re.search(r"\srng\(", hlo):
        return "agrees", "draws random numbers: not compared"
    for one, other in zip(expected, found):
        wrong = judged.apart(one, other, UNITS)
        if wrong:
            return "differs", wrong
    return "agrees", ""
