"""Tegula as a backend of JAX. JAX finds this package when it starts and calls `initialize`.

TEGULA_SLOT says in whose place Tegula runs: `cpu` (the default: every program for the CPU runs on
Tegula, and XLA's own CPU backend is called `xlacpu`), `tegula` (beside XLA's, chosen by
JAX_PLATFORMS=tegula), or `off`.
"""

import logging
import os
import pathlib

logger = logging.getLogger(__name__)

SLOTS = ("cpu", "tegula", "off")


def library_path():
    """The path of the plug-in's library: TEGULA_LIBRARY, or else the one in the package."""
    given = os.environ.get("TEGULA_LIBRARY")
    return given or str(pathlib.Path(__file__).parent / "libtegula_pjrt.so")


def _fall_back(reason):
    logger.warning("Tegula cannot be used, XLA's CPU backend is: %s", reason)


def initialize():
    slot = os.environ.get("TEGULA_SLOT", "cpu")
    if slot not in SLOTS:
        _fall_back(f"TEGULA_SLOT is {slot!r}, expected one of {', '.join(SLOTS)}")
    elif slot != "off":
        try:
            from . import backend

            backend.register(slot, library_path())
        except Exception as error:  # Without a plug-in JAX must still start.
            _fall_back(str(error).splitlines()[0] if str(error) else repr(error))
