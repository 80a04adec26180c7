"""Programs for run.py, none of which is one of the corpus.

    python benches/peers/programs FOLDER [FAMILY ...]
    python benches/peers/run.py FOLDER --threads 1 --rounds 2

needs `jax[cpu]` and `numpy`. Writes NAME.hlo, the text that JAX lowers a function to, and
NAME.npz with its inputs. A family is a file beside this one; without names, all of them.
Each was written after the compiler that it was first measured with, to see what is slow.
"""

import argparse
import importlib
import pathlib

import jax
import numpy as np

FAMILIES = ("everyday", "training", "science", "sequences", "odd_sizes", "blocks", "large", "kernels")


def write(folder, name, function, *inputs):
    inputs = [np.asarray(x) for x in inputs]
    double = any(x.dtype == np.float64 and x.ndim for x in inputs)
    with jax.enable_x64(double):
        lowered = jax.jit(function).lower(*inputs)
        text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    (folder / f"{name}.hlo").write_text(text)
    np.savez(folder / f"{name}.npz", **{f"in{i}": x for i, x in enumerate(inputs)})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    arguments = parser.parse_args()
    unknown = set(arguments.families) - set(FAMILIES)
    if unknown:
        parser.error(f"no family is called {', '.join(sorted(unknown))}: there are {', '.join(FAMILIES)}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    written = set()
    for family in arguments.families or FAMILIES:
        for name, parts in importlib.import_module(family).programs().items():
            if name in written:
                raise ValueError(f"{family} has a second program called {name}")
            written.add(name)
            write(arguments.folder, name, *parts)
    print(f"{len(written)} programs in {arguments.folder}")


if __name__ == "__main__":
    main()
