"""Functions for users of JAX, in addition to the backend."""

import os

from tegula.jax._explain import Explanation, explain

__all__ = ["Explanation", "explain", "threads"]


def threads(count):
    """Sets the number of threads of every program. Call it before JAX is first used."""
    if count < 1:
        raise ValueError(f"expected 1 thread or more, got {count}")
    from jax._src import xla_bridge

    if xla_bridge.backends_are_initialized():
        raise RuntimeError("JAX has its backends already: call tegula.jax.threads before using it")
    os.environ["TEGULA_THREADS"] = str(count)
