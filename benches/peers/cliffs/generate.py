"""Programs made by JAX libraries, as HLO text with inputs.

    python benches/peers/cliffs/generate.py FOLDER [FAMILY ...] [--install] [--x64]

needs `jax[cpu]` and `numpy`; a family needs the packages that its file names, which --install
fetches with pip. Writes NAME.hlo and NAME.npz (in0, in1, ...); --x64: with 64-bit types on, and
inputs of them, x64_NAME.hlo. What is there already is left alone, and a program that its library cannot make is named and left out, so that this can be run
again. Timing is done elsewhere (the folder's __main__.py): the programs are also good for tests.
"""

import argparse
import importlib
import importlib.util
import os
import pathlib
import subprocess
import sys

# Equinox reports errors as NaNs, not by calling Python.
os.environ.setdefault("EQX_ON_ERROR", "nan")
HERE = pathlib.Path(__file__).parent
# Released versions of tensorflow-probability do not support the newest JAX.
PACKAGES = {
    "haiku": "dm-haiku",
    "tensorflow_probability": "tfp-nightly[jax]",
    "e3nn_jax": "e3nn-jax",
    "jax_md": "jax-md",
    "ott": "ott-jax",
}


def families():
    return sorted(p.stem for p in (HERE / "programs").glob("*.py"))


def family(name):
    """Loads a file of programs as a module. It is loaded by path because `statistics` is also the
    name of a module of Python's library."""
    spec = importlib.util.spec_from_file_location(f"cliff_{name}", HERE / "programs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder, name, function, *inputs):
    import jax
    import numpy as np

    inputs = [np.asarray(x) for x in inputs]
    if jax.config.jax_enable_x64:
        inputs = [x.astype(np.float64) if x.dtype == np.float32 else x for x in inputs]
    lowered = jax.jit(function, keep_unused=True).lower(*inputs)
    text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    np.savez(folder / f"{name}.npz", **{f"in{i}": x for i, x in enumerate(inputs)})
    # Written last, so that a program with this file is complete.
    (folder / f"{name}.hlo").write_text(text)


def generate(folder, names, install=False):
    import jax

    folder.mkdir(parents=True, exist_ok=True)
    made, failed = 0, []
    prefix = "x64_" if jax.config.jax_enable_x64 else ""
    for name in names:
        module = family(name)
        missing = [p for p in module.NEEDS if importlib.util.find_spec(p) is None]
        if missing and install:
            packages = [PACKAGES.get(p, p) for p in missing]
            subprocess.run([sys.executable, "-m", "pip", "install", "-q", *packages], check=True)
            importlib.invalidate_caches()
        elif missing:
            failed.append(f"{name}: not installed: {', '.join(missing)}")
            continue
        for program, parts in module.programs().items():
            program = prefix + program
            if (folder / f"{program}.hlo").exists():
                continue
            try:
                write(folder, program, *parts)
                made += 1
            except Exception as error:
                failed.append(f"{program}: {' '.join(str(error).split())[:160]}")
    return made, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(families()))
    parser.add_argument("--install", action="store_true", help="fetch missing packages with pip")
    parser.add_argument("--x64", action="store_true", help="with 64-bit types on")
    arguments = parser.parse_args()
    if arguments.x64:
        # This must be set before JAX is imported.
        os.environ["JAX_ENABLE_X64"] = "1"
    names = arguments.families or families()
    unknown = set(names) - set(families())
    if unknown:
        parser.error(f"no family is called {', '.join(sorted(unknown))}: there are {', '.join(families())}")
    made, failed = generate(arguments.folder, names, arguments.install)
    print(f"{made} new programs in {arguments.folder}")
    for line in failed:
        print(f"not made: {line}")


if __name__ == "__main__":
    main()
