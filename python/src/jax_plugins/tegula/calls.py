"""Functions that compiled programs call: C functions registered with JAX, and Python functions."""

import ctypes
import logging
import traceback

import ml_dtypes
import numpy as np

logger = logging.getLogger(__name__)


class Buffer(ctypes.Structure):
    """XLA_FFI_Buffer."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    ]


# XLA_FFI_DataType.
DTYPES = {
    1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.uint8, 7: np.uint16,
    8: np.uint32, 9: np.uint64, 10: np.float16, 11: np.float32, 12: np.float64, 15: np.complex64,
    16: ml_dtypes.bfloat16, 18: np.complex128, 19: ml_dtypes.float8_e5m2,
    20: ml_dtypes.float8_e4m3fn, 21: ml_dtypes.int4, 22: ml_dtypes.uint4,
    23: ml_dtypes.float8_e4m3b11fnuz, 24: ml_dtypes.float8_e5m2fnuz,
    25: ml_dtypes.float8_e4m3fnuz, 26: ml_dtypes.int2, 27: ml_dtypes.uint2,
    28: ml_dtypes.float8_e4m3, 29: ml_dtypes.float8_e3m4, 32: ml_dtypes.float4_e2m1fn,
    33: ml_dtypes.float8_e8m0fnu,
}
DTYPES = {number: np.dtype(kind) for number, kind in DTYPES.items()}


def _view(buffer):
    """A NumPy array that is a view of a buffer's memory."""
    dims = buffer.dims[: buffer.rank]
    dtype = DTYPES[buffer.dtype]
    size = dtype.itemsize
    for dim in dims:
        size *= dim
    if size == 0:
        return np.zeros(dims, dtype)
    memory = (ctypes.c_char * size).from_address(buffer.data)
    return np.frombuffer(memory, dtype).reshape(dims)


def _takes_token(function):
    """Whether JAX's wrapper of a callback takes a token before its arrays (ordered effects)."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_argcount == 1


class ArrayInPlace:
    """An argument of a `jax.experimental.buffer_callback` function: an array in place.

    It has the interface of JAX's own `Buffer`, which cannot be constructed from Python.
    """

    def __init__(self, array, writeable):
        array.flags.writeable = writeable
        self._array, self.writeable = array, writeable
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __array__(self, dtype=None, copy=None):
        if copy:
            return self._array.astype(dtype or self.dtype)
        if dtype is not None and dtype != self.dtype:
            if copy is False:
                raise ValueError(f"{self.dtype} as {dtype} is a copy")
            return self._array.astype(dtype)
        return self._array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class CallInPlace:
    """The first argument of a `buffer_callback` function: the context of the call."""

    @property
    def stage(self):
        from jax.experimental.buffer_callback import ExecutionStage

        return ExecutionStage.EXECUTE

    @property
    def stream(self):
        from jax.errors import JaxRuntimeError

        raise JaxRuntimeError("UNIMPLEMENTED: XLA FFI GPU context is not available")


CALLER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(Buffer), ctypes.c_size_t,
    ctypes.POINTER(Buffer), ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t,
)


@CALLER
def _call(function, in_place, operands, operand_count, results, result_count, error, room):
    try:
        function = ctypes.cast(function, ctypes.py_object).value
        if in_place:
            given = [ArrayInPlace(_view(operands[n]), False) for n in range(operand_count)]
            taken = [ArrayInPlace(_view(results[n]), True) for n in range(result_count)]
            function(CallInPlace(), *given, *taken)
            return 0
        # Copies: the callee may keep its arguments, but their memory is reused after the call.
        arguments = [_view(operands[place]).copy() for place in range(operand_count)]
        for argument in arguments:
            argument.flags.writeable = False
        if _takes_token(function):
            given = function(None, *arguments)[1:]
        else:
            given = function(*arguments)
        if len(given) != result_count:
            raise RuntimeError(f"expected {result_count} results, got {len(given)}")
        for place, value in enumerate(given):
            np.copyto(_view(results[place]), value, casting="no")
        return 0
    except BaseException as failure:
        text = "".join(traceback.format_exception(failure)).encode()[-(room - 1) :]
        ctypes.memmove(error, text + b"\0", len(text) + 1)
        return 1


_connected = []


def connect(library):
    """Registers with the library the function through which it calls Python functions."""
    library.tegula_python_set_callback.restype = None
    library.tegula_python_set_callback.argtypes = [CALLER]
    library.tegula_python_set_callback(_call)
    library.tegula_ffi_register.restype = ctypes.c_int
    library.tegula_ffi_register.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p * 5),
        ctypes.c_char_p, ctypes.c_size_t,
    ]
    _connected.append(library)


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype = ctypes.c_char_p
_capsule_name.argtypes = [ctypes.py_object]

STAGES = ("instantiate", "prepare", "initialize", "execute", "record")


def register_function(library, name, function, api_version):
    """Registers a C function, or a dictionary of the C functions of its stages."""
    if api_version != 1:
        logger.debug("%s is not called through typed FFI (version %s)", name, api_version)
        return
    stages = function if isinstance(function, dict) else {"execute": function}
    bundle = (ctypes.c_void_p * 5)()
    for stage, capsule in stages.items():
        bundle[STAGES.index(stage)] = _pointer(capsule, _capsule_name(capsule))
    name = name.encode() if isinstance(name, str) else name
    error = ctypes.create_string_buffer(1024)
    if library.tegula_ffi_register(name, len(name), ctypes.byref(bundle), error, len(error)):
        logger.warning("%s", error.value.decode())
