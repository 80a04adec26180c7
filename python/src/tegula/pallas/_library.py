"""Calls the simulator's C functions in Tegula's library."""

import ctypes
import functools
import json

import numpy as np


@functools.cache
def _library():
    from jax_plugins.tegula import calls, library_path

    library = ctypes.CDLL(library_path())
    simulate = library.tegula_pallas_simulate
    simulate.restype = ctypes.c_void_p
    simulate.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t,
        ctypes.POINTER(calls.Buffer), ctypes.c_size_t,
        ctypes.POINTER(calls.Buffer), ctypes.c_size_t,
    ]
    library.tegula_pallas_free.restype = None
    library.tegula_pallas_free.argtypes = [ctypes.c_void_p]
    return library


def _buffers(arrays):
    """`XLA_FFI_Buffer` structs for arrays, and the objects that must live as long as these."""
    from jax_plugins.tegula import calls

    numbers = {kind: number for number, kind in calls.DTYPES.items()}
    buffers, sizes = (calls.Buffer * max(len(arrays), 1))(), []
    for buffer, array in zip(buffers, arrays):
        dims = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        sizes.append(dims)
        buffer.struct_size = ctypes.sizeof(calls.Buffer)
        buffer.dtype = numbers[array.dtype]
        buffer.data = array.ctypes.data
        buffer.rank = array.ndim
        buffer.dims = dims
    return buffers, sizes


def simulate(program, request, operands, results):
    """Runs the kernel of a StableHLO program (its text), and writes to the arrays `results`.

    Returns a dictionary with `report` or `error`. Releases the GIL while the kernel runs.
    """
    library = _library()
    operands = [np.ascontiguousarray(array).reshape(np.shape(array)) for array in operands]
    given, given_sizes = _buffers(operands)
    wanted, wanted_sizes = _buffers(results)
    request = json.dumps(request).encode()
    answer = library.tegula_pallas_simulate(
        program, len(program), request, len(request), given, len(operands), wanted, len(results)
    )
    try:
        return json.loads(ctypes.string_at(answer))
    finally:
        library.tegula_pallas_free(answer)
        del given_sizes, wanted_sizes
