"""JAX's primitive harnesses as programs."""

import zlib

import jax
import numpy as np
from jax._src.internal_test_util import test_harnesses

import judged
from run import tegula

jax.config.update("jax_enable_x64", True)


def programs(_):
    """The harnesses that XLA:CPU supports, by name."""
    found = {}
    for harness in test_harnesses.all_harnesses:
        if harness.filter("cpu"):
            found[harness.fullname] = harness
    return found


def hlo_text(lowered):
    """A lowered function as HLO text with unabbreviated constants."""
    from jax._src.lib import xla_client

    module = lowered.compiler_ir("hlo").as_hlo_module()
    options = xla_client.hlo.HloPrintOptions()
    options.print_large_constants = True
    options.print_metadata = False
    return module.to_string(options)


def bytecode(function, given, version):
    """A function exported by `jax.export`: bytecode of a VHLO version, or of JAX's choice."""
    from jax._src.lib import _jax
    from jaxlib.mlir.dialects import stablehlo

    exported = jax.export.export(function)(*given)
    if version == "exported":
        return exported.mlir_module_serialized
    if version == "newest":
        version = stablehlo.get_current_version()
    return _jax.mlir.serialize_portable_artifact(exported.mlir_module(), version, True)


def written(form, function, given, lowered):
    """The program in a form, and the extension of its file."""
    if form == "hlo":
        return hlo_text(lowered).encode(), ".hlo"
    if form == "mlir":
        return str(lowered.compiler_ir("stablehlo")).encode(), ".mlir"
    return bytecode(function, given, form), ".mlirbc"


def arrays(tree):
    """The arrays of arguments or results; random keys become arrays of their words."""
    leaves = []
    for leaf in jax.tree.leaves(tree):
        if jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        leaves.append(np.asarray(leaf))
    return leaves


def stored(array):
    """An array as stored in an npz file: types that numpy lacks become integers with their bits."""
    array = np.asarray(array)
    if array.dtype.kind in "biufc" and array.dtype.isbuiltin:
        return array
    return array.view(f"u{array.dtype.itemsize}")


def safe(name):
    """The name with characters that a file name may not have replaced."""
    short = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)[:120]
    return f"{short}_{zlib.crc32(name.encode()):08x}"


def judge(name, harness, arguments):
    rng = np.random.RandomState(zlib.crc32(name.encode()))
    try:
        given = harness.dyn_args_maker(rng)
        function = jax.jit(harness.dyn_fun, keep_unused=True)
        lowered = function.lower(*given)
        program, ending = written(arguments.form, function, given, lowered)
        expected = arrays(lowered.compile()(*given))
        inputs = arrays(given)
    except Exception as error:
        return "not xla's", " ".join(str(error).split())[:200]
    stem = arguments.folder / safe(name)
    file, given_file, found_file = (stem.with_name(stem.name + end) for end in (ending, ".npz", ".out.npz"))
    file.write_bytes(program)
    np.savez(given_file, **{f"in{i}": stored(array) for i, array in enumerate(inputs)})
    failure = tegula(arguments, "run", file, "--inputs", given_file, "--outputs", found_file)
    if failure:
        return failure
    with np.load(found_file) as npz:
        found = [npz[f"out{i}"] for i in range(len(expected))]
    found = [f if f.dtype == e.dtype else f.view(e.dtype) for f, e in zip(found, expected)]
    found_file.unlink()
    try:
        wrong = judged.difference(harness, inputs, expected, found)
    except Exception as error:
        wrong = f"not judged: {error!r}"[:200]
    if wrong:
        return "differs", wrong
    file.unlink()
    given_file.unlink()
    return "agrees", ""
