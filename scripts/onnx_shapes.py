#!/usr/bin/env python3
"""Counts the node outputs of real ONNX models whose shapes Tegula knows, in numbers or in terms of sizes.

usage: onnx_shapes.py CACHE --tegula BINARY [--manifest tests/data/onnx/models.toml] [--only TEXT]
                      [--least SHARE] [--seconds S]

Models are those of `onnx_models.py`, which fetches them. Each output of a node of the graph counts, except
those without a name. Inputs whose values decide which operations there are have those of the manifest.
Beside it is what `onnx.shape_inference` knows: shapes that are numbers or names. The run fails if the share
is below `--least` or a model takes longer than `--seconds`.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib

import numpy as np
import onnx
from onnx import shape_inference

from onnx_models import arguments, fetch


def outputs_of(model):
    return {name for node in model.graph.node for name in node.output if name}


def by_onnx(model, wanted):
    """How many outputs the `onnx` package knows, and the seconds that it takes."""
    start = time.perf_counter()
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:  # A model that it refuses has no shapes there.
        return 0, time.perf_counter() - start
    known = 0
    for info in list(inferred.value_info) + list(inferred.output):
        ty = info.type.tensor_type
        sizes = [dim.HasField("dim_value") or dim.dim_param for dim in ty.shape.dim]
        known += info.name in wanted and ty.HasField("shape") and all(sizes)
    return known, time.perf_counter() - start


def by_tegula(binary, path, entry):
    """The shapes by name, and the milliseconds of the whole command."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [binary, "--json", "shape", path, "--nodes"]
        given = {k: np.array(v) for k, v in entry.get("values", {}).items() if not isinstance(v, list)}
        if given:
            values = os.path.join(scratch, "values.npz")
            np.savez(values, **given)
            command += ["--inputs", values]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if done.returncode != 0:
            return {}, seconds, done.stderr.strip()[:200]
        values = json.loads(done.stdout)["values"]
        return {value["name"]: value["shape"] for value in values}, seconds, None


def main():
    parser = arguments()
    parser.add_argument("--least", type=float, default=0.99)
    parser.add_argument("--seconds", type=float, default=1.0)
    args = parser.parse_args()
    with open(args.manifest, "rb") as file:
        models = tomllib.load(file)["model"]
    total = known = theirs = 0
    slowest, their_seconds, own_seconds = ("", 0.0), 0.0, 0.0
    for entry in models:
        if args.only not in entry["name"]:
            continue
        path = fetch(entry, args.cache)
        model = onnx.load(path)
        wanted = outputs_of(model)
        shapes, seconds, error = by_tegula(args.tegula, path, entry)
        other, other_seconds = by_onnx(model, wanted)
        found = len(wanted & shapes.keys())
        total, known, theirs = total + len(wanted), known + found, theirs + other
        own_seconds, their_seconds = own_seconds + seconds, their_seconds + other_seconds
        slowest = max(slowest, (entry["name"], seconds), key=lambda pair: pair[1])
        note = f"  ({error})" if error else ""
        print(f"{entry['name']}: {found} of {len(wanted)} in {seconds:.3f} s; onnx {other}{note}", flush=True)
    share = known / total
    print(f"{known} of {total} node outputs have shapes ({share:.2%}), in {own_seconds:.1f} s")
    print(f"slowest {slowest[0]}, {slowest[1]:.3f} s; the onnx package knows {theirs} ({theirs / total:.1%}), {their_seconds:.1f} s")
    sys.exit(0 if share >= args.least and slowest[1] <= args.seconds else 1)


if __name__ == "__main__":
    main()
