"""Registers the plug-in with JAX.

JAX has no public way to put a backend in the place of its CPU backend, so private names of
`jax._src.xla_bridge` are used here and nowhere else; `tests/test_names.py` checks that they are
there.
"""

import ctypes

from jax._src import distributed, xla_bridge
from jaxlib import _jax, xla_client

from . import _fall_back, calls


def _options():
    """The client's options, from JAX's configuration."""
    options = {"asynchronous": xla_bridge._CPU_ENABLE_ASYNC_DISPATCH.value}
    if coordinator := distributed.global_state.coordinator_address:
        options["coordinator"] = coordinator
    devices = xla_bridge.num_cpu_devices.value
    if devices > 0:
        options["num_devices"] = devices
    return options


def _client_or_xla(slot):
    def make():
        try:
            return xla_bridge.make_pjrt_c_api_client(slot, options=_options)
        except Exception as error:
            if distributed.global_state.client is not None:
                # No fallback: processes with different clients would wait for each other forever.
                raise
            _fall_back(str(error).splitlines()[0])
            return xla_bridge.make_cpu_client()

    return make


def register(slot, path):
    library = ctypes.CDLL(path)
    calls.connect(library)
    if slot == "cpu":
        # XLA's CPU backend stays available under another name, with the lowest priority.
        xla_bridge.register_backend_factory(
            "xlacpu", xla_bridge.make_cpu_client, priority=-5, fail_quietly=True
        )
        xla_bridge._nonexperimental_plugins.add(slot)
        priority = 0
    else:
        xla_bridge._nonexperimental_plugins.add(slot)
        priority = -10
    xla_bridge.register_plugin(
        slot, priority=priority, library_path=path, factory=_client_or_xla(slot)
    )

    def target(name, function, platform, api_version, traits):
        # XLA's own client needs the registration as well.
        _jax.register_custom_call_target(
            name, function, platform=platform, api_version=api_version, traits=traits
        )
        calls.register_function(library, name, function, api_version)

    xla_client.register_custom_call_handler("cpu", target)
