"""Makes JAX run Pallas kernels on the simulator.

JAX has no public way to lower a TPU kernel on a CPU, so private names of `jax._src` are used here
and nowhere else; `python/tests/test_pallas.py` checks that they are there. While a simulator is
active

- `pallas_call` and similar primitives are lowered for the CPU as for a TPU, except that the custom
  call that a TPU would run becomes a call of a Python function;
- a configuration value is part of the keys of JAX's caches, so that programs with and without the
  simulator are compiled separately;
- JAX's functions that describe the TPU describe the simulated chip.
"""

import contextlib
import functools
import inspect
import types

import jax
import numpy as np

KINDS = {
    "v2": "TPU v2", "v3": "TPU v3", "v4i": "TPU v4 lite", "v4": "TPU v4", "v5e": "TPU v5 lite",
    "v5p": "TPU v5", "v6e": "TPU v6 lite", "7x": "TPU7x",
}
"""JAX's names of the chips."""

CORES = {"v4": 2, "v5p": 2}
"""The number of cores in a JAX device, for chips where it is more than one."""


@functools.cache
def names():
    """JAX's private functions and classes that are used here."""
    from jax._src import callback, tpu_custom_call
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects import func, hlo
    from jax._src.pallas import mpmd, pallas_call
    from jax._src.pallas.mosaic import pallas_call_registration, tpu_info
    from jax._src.sharding_impls import SPMDAxisContext

    return types.SimpleNamespace(
        mlir=mlir, ir=ir, func=func, hlo=hlo, tpu_info=tpu_info, tpu_custom_call=tpu_custom_call,
        pallas_call=pallas_call, registration=pallas_call_registration, mpmd=mpmd,
        callback=callback, config=_jax.config.Config, SPMDAxisContext=SPMDAxisContext,
        lower_call=tpu_custom_call._tpu_custom_call_lowering,
        lower_pallas=pallas_call._pallas_call_lowering, lower_mpmd=mpmd._mpmd_map_lowering,
        pallas_call_p=pallas_call.pallas_call_p, mpmd_map_p=mpmd.mpmd_map_p,
        tpu_custom_call_p=tpu_custom_call.tpu_custom_call_p,
        rules=mlir._platform_specific_lowerings["cpu"],
        emit_python_callback=callback.emit_python_callback,
        callback_sharding=callback._callback_op_sharding,
    )


@functools.cache
def _state():
    """The active simulator, as a value of JAX's configuration, which is part of cache keys."""
    return names().config(
        "tegula_pallas_simulator", None, include_in_jit_key=True, include_in_trace_context=True
    )


class Key:
    """Represents a simulator in the keys of JAX's caches."""

    def __init__(self, simulator):
        self.simulator = simulator


_active = []


def _of_tpu(params):
    """Whether a kernel is for TPUs: it has no parameters for Triton or Mosaic GPU."""
    given = params.get("compiler_params")
    return given is None or "mosaic_gpu" not in type(given).__module__ and (
        "triton" not in type(given).__module__
    )


def _lower_pallas(ctx, *nodes, interpret, **params):
    """Lowers `pallas_call` for the CPU."""
    own = names()
    if not _active or not _of_tpu(params):
        return own.lower_pallas(ctx, *nodes, interpret=interpret, **params)
    if params["jaxpr"].constvars:
        raise ValueError("cannot lower a pallas_call with constants")
    return own.registration.pallas_call_tpu_lowering_rule(
        ctx, *nodes, interpret=False, **params
    )


def _lower_mpmd(ctx, *nodes, **params):
    """Lowers `core_map`, `pl.kernel` and so on for the CPU."""
    own = names()
    if not _active or not _of_tpu(params):
        return own.lower_mpmd(ctx, *nodes, **params)
    rule = own.registration.mpmd_map_tpu_lowering_rule
    if "num_scratch" in inspect.signature(rule).parameters and "num_scratch" not in params:
        # JAX 0.10 counts the kernel's scratch arguments in the function that calls this one.
        arguments = len(params["jaxprs"][0].invars)
        params["num_scratch"] = arguments - len(nodes) - len(ctx.avals_out)
    return rule(ctx, *nodes, **params)


def _lower_call(ctx, *nodes, **params):
    """Lowers the custom call that a TPU would run to a call of the simulator."""
    own = names()
    if not _active or tuple(ctx.module_context.platforms) != ("cpu",):
        return own.lower_call(ctx, *nodes, **params)
    avals = [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in params["out_avals"]]
    program = _program(ctx, nodes, params)
    simulator = _active[-1].simulator
    shapes = [(aval.shape, np.dtype(aval.dtype)) for aval in avals]
    given = [jax.core.ShapedArray(aval.shape, aval.dtype) for aval in ctx.avals_in]
    operands = list(nodes)
    devices = _devices(ctx, params)
    if devices > 1:
        # The number of the device that runs it is one more operand.
        own_number = own.hlo.convert(
            own.ir.RankedTensorType.get([], own.ir.IntegerType.get_signless(32)),
            own.hlo.PartitionIdOp(),
        )
        operands.append(own_number)
        given.append(jax.core.ShapedArray((), np.dtype(np.int32)))
    run = simulator._kernel(program, shapes, devices)
    results, _, _ = own.emit_python_callback(
        ctx.replace(avals_in=given, avals_out=avals), run, None, operands, given, avals, has_side_effect=True, returns_token=False,
        sharding=own.callback_sharding(ctx.module_context.axis_context, None, avals),
    )
    return results


def _program(ctx, nodes, params):
    """A StableHLO program that calls the kernel, as text."""
    own = names()
    with ctx.module_context.context, own.ir.Location.unknown():
        module = own.ir.Module.create()
        with own.ir.InsertionPoint(module.body):
            results, _ = own.mlir.ir_tree_registry.flatten(
                [own.mlir.aval_to_ir_types(ctx.module_context, aval) for aval in params["out_avals"]]
            ) if hasattr(own.mlir, "ir_tree_registry") else (
                [own.mlir.aval_to_ir_type(aval) for aval in params["out_avals"]], None
            )
            main = own.func.FuncOp("main", ([node.type for node in nodes], results))
            block = main.add_entry_block()
            with own.ir.InsertionPoint(block):
                made = own.lower_call(ctx, *block.arguments, **params)
                own.func.ReturnOp(list(made))
        return module.operation.get_asm(enable_debug_info=False).encode()


def _devices(ctx, params):
    """The number of devices that run the kernel together."""
    context = ctx.module_context.axis_context
    if not getattr(params["config"], "has_communication", False):
        return 1
    if not isinstance(context, names().SPMDAxisContext):
        return 1
    if context.mesh.size > 1 and _runs_on_tegula(context.mesh):
        raise NotImplementedError(
            "a kernel that copies between devices needs XLA's CPU devices, since Tegula's run a"
            " program for all of them at once: set TEGULA_SLOT=off"
        )
    return context.mesh.size


def _runs_on_tegula(mesh):
    devices = getattr(mesh, "devices", None)
    if devices is None:
        return False
    return "tegula" in devices.flat[0].client.platform_version


@contextlib.contextmanager
def _replaced(owner, **values):
    """Replaces attributes of an object in a `with` block."""
    before = {name: getattr(owner, name) for name in values}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextlib.contextmanager
def _rules():
    """Registers the lowerings for the CPU in a `with` block."""
    own = names()
    primitives = {
        own.pallas_call_p: _lower_pallas, own.mpmd_map_p: _lower_mpmd,
        own.tpu_custom_call_p: _lower_call,
    }
    before = {primitive: own.rules.get(primitive) for primitive in primitives}
    for primitive, rule in primitives.items():
        own.mlir.register_lowering(primitive, rule, platform="cpu")
    try:
        with _replaced(own.tpu_custom_call, _tpu_custom_call_lowering=_lower_call):
            yield
    finally:
        for primitive, rule in before.items():
            if rule is None:
                own.rules.pop(primitive, None)
            else:
                own.rules[primitive] = rule


@contextlib.contextmanager
def _device_kind(kind, cores):
    """Makes JAX's devices report that they are TPUs of a kind, in a `with` block."""
    device = type(jax.devices()[0])
    before = device.__dict__.get("device_kind")
    try:
        device.device_kind = property(lambda self: kind)
    except (AttributeError, TypeError):
        before = None
    try:
        with _replaced(
            names().tpu_info, get_device_kind=lambda: kind, get_num_device_cores=lambda: cores
        ):
            yield
    finally:
        if before is not None:
            device.device_kind = before


@contextlib.contextmanager
def active(simulator, kind, cores):
    """Runs kernels on a simulator in a `with` block."""
    key = Key(simulator)
    state = _state()
    with contextlib.ExitStack() as stack:
        if not _active:
            stack.enter_context(_rules())
        stack.enter_context(_device_kind(kind, cores))
        before = state.swap_local(key)
        stack.callback(state.set_local, before)
        _active.append(key)
        stack.callback(_active.remove, key)
        yield
