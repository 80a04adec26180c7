"""The simulator as a context manager."""

import contextlib
import os

import numpy as np

from . import _report
from ._devices import Meeting


class SimulationError(RuntimeError):
    """A kernel cannot be simulated. The message names the unsupported feature and its place."""


class Simulator:
    """The runs and the findings of a simulated chip; `simulator` returns it."""

    def __init__(self, chip, *, races, precision, values, max_steps):
        self.chip = chip
        self.runs = []
        """Every run of a kernel, in order."""
        self.errors = []
        """The errors of kernels that could not be simulated; JAX raised them as well."""
        self._request = {
            "chip": chip, "races": races, "precision": precision, "values": values,
        }
        if max_steps is not None:
            self._request["steps"] = max_steps

    @property
    def findings(self):
        """The findings of all runs, each place once."""
        return _report.merged(found for run in self.runs for found in run.findings)

    @property
    def printed(self):
        """The texts that kernels printed with `pl.debug_print`, in order."""
        return [said for run in self.runs for _, _, _, said in run.printed]

    @property
    def seconds(self):
        """The total time of all runs on the chip, in seconds."""
        return sum(run.seconds for run in self.runs)

    def clear(self):
        """Removes all runs and errors."""
        self.runs.clear()
        self.errors.clear()

    def report(self):
        """The runs, their times, the findings and the printed texts, as text."""
        return _report.text(self.chip, self.runs, self.findings)

    def _kernel(self, program, shapes, devices):
        """Returns a function that runs a kernel on arrays. With several devices, its last argument
        is the device's number."""
        folder = os.environ.get("TEGULA_PALLAS_DUMP")
        if folder:
            self._dump(folder, program)
        if devices == 1:
            return lambda *arrays: self._run(program, shapes, [arrays])[0]
        meeting = Meeting(devices)

        def run(*arrays):
            *arrays, device = arrays
            return meeting.join(
                int(device), arrays, lambda given: self._run(program, shapes, given)
            )

        return run

    def _run(self, program, shapes, given):
        """Runs a kernel on the arrays of each device; returns the results of each device."""
        from ._library import simulate

        results = [[np.zeros(shape, dtype) for shape, dtype in shapes] for _ in given]
        request = {**self._request, "devices": len(given)}
        operands = [np.asarray(array) for arrays in given for array in arrays]
        answer = simulate(program, request, operands, [one for own in results for one in own])
        if "error" in answer:
            error = SimulationError(answer["error"])
            self.errors.append(error)
            raise error
        self.runs.append(_report.Run.of(answer["report"], len(given)))
        return [tuple(own) for own in results]

    def _dump(self, folder, program):
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"kernel{len(os.listdir(folder))}.mlir")
        with open(path, "wb") as file:
            file.write(program)


@contextlib.contextmanager
def simulator(chip="v5e", *, races=True, precision="f32", values=True, max_steps=None):
    """Runs every Pallas kernel for TPUs in the `with` block on a simulated chip.

    Args:
      chip: `v2`, `v3`, `v4i`, `v4`, `v5e`, `v5p`, `v6e` or `7x`, or a file that describes one.
        JAX's devices and `pltpu.get_tpu_info` describe this chip.
      races: Whether to report unordered accesses (data races), and to run the points of `parallel`
        dimensions in reverse order as well.
      precision: The precision of f32 matrix products: `f32`, as JAX's interpreter computes them, or
        `tpu`, with operands rounded to bf16 first, as the matrix units do.
      values: Whether to compute values. If not, results are zeros, and only times and findings that
        do not depend on values are valid.
      max_steps: The maximum number of statements of a run; a run with more is an error.

    `with ... as` binds a `Simulator`. Kernels with `interpret=True` are simulated, too.
    """
    from . import _jax

    if precision not in ("f32", "tpu"):
        raise ValueError(f"precision is {precision!r}, expected 'f32' or 'tpu'")
    kind = _jax.KINDS.get(chip)
    if kind is None and not os.path.isfile(chip):
        known = ", ".join(_jax.KINDS)
        raise ValueError(f"chip is {chip!r}, expected one of {known}, or a file that describes one")
    if kind is None:
        kind = _kind_of(chip)
    made = Simulator(chip, races=races, precision=precision, values=values, max_steps=max_steps)
    with _jax.active(made, kind, _jax.CORES.get(chip, 1)):
        yield made


def _kind_of(path):
    """JAX's name of the chip in a chip file; v5e if JAX does not know the chip."""
    from . import _jax

    with open(path) as file:
        for line in file:
            name, _, value = line.partition("=")
            if name.strip() == "name":
                return _jax.KINDS.get(value.split("#")[0].strip(), _jax.KINDS["v5e"])
    return _jax.KINDS["v5e"]
