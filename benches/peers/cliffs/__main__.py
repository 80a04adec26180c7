"""The cliff finder: programs that are wrong or far slower than XLA:CPU, worst first.

    cargo build --release --bin tegula
    python benches/peers/cliffs/generate.py FOLDER
    python benches/peers/cliffs FOLDER [--sample N] [--hlo FOLDER ...] [--inputs KIND ...]

needs `jax[cpu]` and `numpy`. Runs the programs of FOLDER, and of further folders of HLO text
(XLA's own CPU benchmarks are in xla/backends/cpu/benchmarks/hlo of its repository; programs
without NAME.npz get random inputs). Each runs on its own inputs, and with every floating-point
input replaced by special numbers that occur in practice but not in benchmarks: see KINDS.

How both sides are measured is described in ../run.py; here a round is short, because a cliff is
not a matter of a few percent. What was measured is kept in FOLDER/measured.json, by program,
inputs and compiler, so that an interrupted run continues, and one with a new compiler measures
again. --sample N takes N random programs of the remaining ones, drawn by --seed.
"""

import argparse
import json
import os
import pathlib
import random
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import run as peers

peers.SECONDS_A_ROUND = 0.15


def half(value):
    """Every second number, drawn by a fixed seed, is `value`: a mask."""

    def change(x, np):
        x = x.copy()
        x[np.random.RandomState(0).rand(*x.shape) < 0.5] = value
        return x

    return change


def first(value):
    def change(x, np):
        x = x.copy()
        if x.size:
            x.reshape(-1)[0] = value
        return x

    return change


def one_hot(x, np):
    rows = np.zeros_like(x)
    if x.ndim and x.shape[-1]:
        rows[..., x.shape[-1] // 2] = 1
    return rows


# The replacements of floating-point inputs.
KINDS = {
    "own": lambda x, np: x,
    "masked_inf": half(-float("inf")),
    "masked_1e9": half(-1e9),
    "masked_95": half(-95.0),
    "zeros": lambda x, np: np.zeros_like(x),
    "subnormal": lambda x, np: (x * 1e-39).astype(x.dtype),
    "one_hot": one_hot,
    "sorted": lambda x, np: np.sort(x, axis=None).reshape(x.shape),
    "constant": lambda x, np: np.full_like(x, 0.75),
    "nan": first(float("nan")),
}


def random_inputs(hlo, np):
    """Random inputs for a program without stored inputs; integers are small enough for indices."""
    import ml_dtypes
    from jax._src.lib import xla_client

    module = xla_client.hlo.hlo_module_from_text(hlo.read_text())
    proto = module.as_serialized_hlo_module_proto()
    r, arrays = np.random.RandomState(0), {}
    for i, shape in enumerate(xla_client.XlaComputation(proto).program_shape().parameter_shapes()):
        dtype, dims = shape.numpy_dtype(), shape.dimensions()
        if dtype.kind in "iu":
            arrays[f"in{i}"] = np.asarray(r.randint(0, 4, dims), dtype)
        elif dtype.kind == "b":
            arrays[f"in{i}"] = np.asarray(r.rand(*dims) < 0.5)
        else:
            array = np.asarray(r.randn(*dims), np.float32).astype(dtype)
            arrays[f"in{i}"] = array.view(np.uint16) if dtype == ml_dtypes.bfloat16 else array
    return arrays


def inputs_of(hlo, kind, scratch):
    """Writes a program's inputs of a kind to a file; None if no input would change."""
    import numpy as np

    stored = hlo.with_suffix(".npz")
    if stored.exists():
        with np.load(stored) as npz:
            arrays = dict(npz)
    else:
        arrays = random_inputs(hlo, np)
    changed = False
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            new = KINDS[kind](array, np)
            changed |= new.tobytes() != array.tobytes()
            arrays[name] = new
    if kind != "own" and not changed:
        return None
    path = scratch / "cliff.npz"
    np.savez(path, **arrays)
    return path


def compiler_key(path):
    stat = os.stat(path)
    return f"{stat.st_size}-{int(stat.st_mtime)}"


def ratio(row, floors):
    """XLA's time divided by ours, without the cost of a call; None if a time is missing."""
    us, xla = row["us"].get("run_ms_min"), row["xla"].get("run_ms_min")
    if us is None or xla is None:
        return None
    times = [max(t - floor, 0.2 * floor) for t, floor in zip((us, xla), floors)]
    return times[1] / times[0]


def table(rows, floors):
    lines = ["| program | inputs | ours ms | XLA ms | run | |", "|---|---|---:|---:|---:|---|"]
    order = []
    for row in rows:
        r = ratio(row, floors)
        failed = row["us"].get("error")
        if "error" in row["xla"]:
            continue
        trouble = failed or row.get("disagreement")
        order.append((0 if trouble else 1, r if r is not None else 0.0, row, trouble or ""))
    order.sort(key=lambda entry: entry[:2])
    for _, r, row, trouble in order:
        times = [row[who].get("run_ms_min") for who in ("us", "xla")]
        text = " | ".join("–" if t is None else f"{t:.3f}" for t in times)
        lines.append(f"| {row['name']} | {row['kind']} | {text} | {r:.2f} | {trouble} |")
    good = [r for _, r, _, trouble in order if not trouble]
    if good:
        lines += [
            "",
            f"{len(order)} measured, {len(order) - len(good)} in trouble, geometric mean"
            f" {peers.mean([max(r, 1e-6) for r in good]):.3g};"
            f" {sum(r < 0.8 for r in good)} below 0.8, {sum(r < 1 for r in good)} below 1.",
        ]
    left = [f"{row['name']} ({row['kind']})" for row in rows if "error" in row["xla"]]
    if left:
        lines += ["", f"XLA does not run: {', '.join(left)}"]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--hlo", nargs="+", type=pathlib.Path, default=[], help="further folders of HLO text")
    parser.add_argument("--inputs", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND")
    parser.add_argument("--only", default="", help="programs whose names this pattern is in")
    parser.add_argument("--sample", type=int, help="measure so many of what is left")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a round of ours")
    parser.add_argument("--tegula", default=str(peers.ROOT / "target/release/tegula"))
    parser.add_argument("--show", type=int, default=60, help="rows of the table")
    arguments = parser.parse_args()

    kept = arguments.folder / "measured.json"
    measured = json.loads(kept.read_text()) if kept.exists() else {}
    key = compiler_key(arguments.tegula) + f"-{arguments.threads}"
    programs = [p for folder in [arguments.folder, *arguments.hlo] for p in sorted(folder.glob("*.hlo"))]
    programs = [p for p in programs if re.search(arguments.only, p.stem)]
    wanted = [(p, kind) for p in programs for kind in arguments.inputs]
    names = {f"{p.stem}/{kind}/{key}" for p, kind in wanted}
    todo = [(p, kind) for p, kind in wanted if f"{p.stem}/{kind}/{key}" not in measured]
    if arguments.sample is not None:
        todo = random.Random(arguments.seed).sample(todo, min(arguments.sample, len(todo)))

    cores = sorted(os.sched_getaffinity(0))[: arguments.threads]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        import numpy as np

        xla = peers.Xla(cores)
        results = scratch / "results.npz"
        floor_hlo, floor_inputs = scratch / "floor.hlo", scratch / "floor.npz"
        floor_hlo.write_text(peers.FLOOR)
        np.savez(floor_inputs, in0=np.zeros(8, np.float32))
        row = peers.measure(arguments, xla, floor_hlo, floor_inputs, cores, results)
        floors = (row["us"]["run_ms_min"], row["xla"]["run_ms_min"])
        for number, (hlo, kind) in enumerate(todo):
            name = f"{hlo.stem}/{kind}/{key}"
            inputs = inputs_of(hlo, kind, scratch)
            if inputs is None:
                measured[name] = None
                continue
            row = peers.measure(arguments, xla, hlo, inputs, cores, results) | {"kind": kind}
            measured[name] = row
            print(f"{number + 1}/{len(todo)} {hlo.stem} {kind}", file=sys.stderr, flush=True)
            if number % 10 == 9:
                kept.write_text(json.dumps(measured))
        kept.write_text(json.dumps(measured))
        xla.close()
    rows = [measured[name] for name in sorted(names) if measured.get(name)]
    lines = table(rows, floors)
    print("\n".join(lines[: arguments.show + 2] + lines[len(lines) - 4 :]))


if __name__ == "__main__":
    main()
