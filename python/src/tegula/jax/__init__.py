"""What Tegula has for users of JAX besides being its backend."""

import os

from tegula.jax._explain import Explanation, explain

__all__ = ["Explanation", "explain", "threads"]


def threads(count):
    """Has every program use so many threads: to be called before JAX is first used."""
    if count < 1:
        raise ValueError(f"expected 1 thread or more, got {count}")
    from jax._src import xla_bridge

    if xla_bridge.backends_are_initialized():
        raise RuntimeError("JAX has its backends already: call tegula.jax.threads before using it")
    os.environ["TEGULA_THREADS"] = str(count)
