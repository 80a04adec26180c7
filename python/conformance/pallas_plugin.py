"""A plug-in of pytest for `pallas_tests.py`: JAX's own tests of TPU kernels on the simulated chip.

JAX's test utilities say that the device is a TPU, a simulator is active in the whole process, and a
line of JSON for each test says what its kernels did: TEGULA_PALLAS_TESTS names the file.
"""

import importlib.util
import json
import os
import pathlib
import sys

import jax
import pytest

import tegula.pallas
from tegula.pallas import _library, _simulator

_kernels = []


class Simulator(_simulator.Simulator):
    """Notes each kernel that is lowered, and how far it gets."""

    def _kernel(self, program, shapes, devices):
        note = {"program": len(program), "stage": "lowered", "error": "", "codes": []}
        _kernels.append(note)
        answer = _library.simulate(program, {**self._request, "only": "print"}, [], [])
        if "error" in answer:
            note.update(stage=answer.get("stage", "read"), error=answer["error"])
        else:
            note["stage"] = "printed"
        run = super()._kernel(program, shapes, devices)

        def noted(*arrays):
            before = len(self.runs)
            try:
                made = run(*arrays)
            except BaseException as error:
                note["error"] = note["error"] or str(error)
                raise
            note["stage"] = "run"
            for one in self.runs[before:]:
                note["codes"] += [f"{found.code} {found.place}" for found in one.findings]
            return made

        return noted


def _load(name, source):
    """A module of JAX's source that its package does not have."""
    try:
        present = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        present = False
    path = source / (name.replace(".", "/") + ".py")
    if present or not path.exists():
        return
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    package, _, own = name.rpartition(".")
    setattr(importlib.import_module(package), own, module)


def pytest_configure(config):
    devices = int(os.environ.get("TEGULA_PALLAS_DEVICES", "1"))
    jax.config.update("jax_num_cpu_devices", devices)
    source = pathlib.Path(os.environ["TEGULA_JAX_SOURCE"])
    for name in ("jax._src.hypothesis_test_util", "jax._src.pallas.pallas_test_util"):
        _load(name, source)
    from jax._src import test_util

    test_util.device_under_test = lambda: "tpu"
    _simulator.Simulator = Simulator
    chip = os.environ.get("TEGULA_PALLAS_CHIP", "v5e")
    context = tegula.pallas.simulator(chip, max_steps=100_000_000)
    config.tegula = (context, context.__enter__())


def pytest_unconfigure(config):
    config.tegula[0].__exit__(None, None, None)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when != "call" and report.outcome == "passed":
        return
    if report.when == "teardown":
        return
    row = {
        "test": item.nodeid, "outcome": report.outcome, "kernels": list(_kernels),
        "error": str(call.excinfo.value)[-2000:] if call.excinfo else "",
    }
    _kernels.clear()
    item.config.tegula[1].clear()
    with open(os.environ["TEGULA_PALLAS_TESTS"], "a") as file:
        print(json.dumps(row), file=file)
