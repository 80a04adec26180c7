#!/usr/bin/env python3
"""Runs ONNX's backend tests through `tegula run` and holds the result against a list.

usage: onnx_suite.py SUITE --tegula BINARY [--expect tests/data/onnx/expectations.toml]
                     [--only TEXT] [--write FILE] [--kinds node,simple,...] [--jobs N]

SUITE is a folder of NAME/model.onnx, set_K.npz (in_I, out_I) and meta.json in folders by kind.
A test is plain if all its values are arrays of numpy's own types. With `--expect` the run fails
on a failure that is not listed and on a listed test that passes; `--write` writes the list anew.
A test that ends by a signal or a panic, or takes more than a minute, always fails the run.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

SECONDS = 60


def close(got, want, rtol, atol, steps):
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    if got.dtype != want.dtype:
        return f"type {got.dtype} instead of {want.dtype}"
    if want.dtype.kind in "fc":
        if np.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True):
            return None
    elif np.all(np.abs(got.astype(np.int64) - want.astype(np.int64)) <= steps):
        return None
    return "values differ"


def run_one(folder, meta, binary):
    """Why the test fails; None if it passes."""
    for number in range(len(meta["sets"])):
        data = np.load(os.path.join(folder, f"set_{number}.npz"))
        with tempfile.TemporaryDirectory() as scratch:
            given, results = os.path.join(scratch, "in.npz"), os.path.join(scratch, "out.npz")
            names = [n for n in data.files if n.startswith("in_")]
            np.savez(given, **{"in" + n[3:]: data[n] for n in names})
            command = [binary, "run", os.path.join(folder, "model.onnx"), "--inputs", given]
            command += ["--outputs", results]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                return "CRASH: more than a minute"
            if done.returncode < 0 or done.returncode == 101:
                return "CRASH: " + done.stderr.strip()[-300:]
            if done.returncode != 0:
                text = re.sub(r"\s+", " ", done.stderr).strip()
                return text.replace(folder, "")[:300]
            out = np.load(results)
            wanted = [n for n in data.files if n.startswith("out_")]
            for name in wanted:
                key = "out" + name[4:]
                if key not in out.files:
                    return f"no result {key}"
                rtol, atol = max(meta["rtol"], 1e-3), max(meta["atol"], 1e-5)
                why = close(out[key], data[name], rtol, atol, meta.get("steps", 0))
                if why:
                    return f"{key}: {why}"
    return None


def is_plain(meta):
    values = [v for s in meta["sets"] for v in s["in"] + s["out"]]
    return all(v["enc"] == "npy" for v in values)


def read_list(path):
    """The failing tests of a list, with their causes."""
    listed = {}
    with open(path) as file:
        for line in file:
            found = re.match(r'(\w+) = "(.*)"$', line.strip())
            if found:
                listed[found[1]] = found[2]
    return listed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("suite")
    parser.add_argument("--tegula", required=True)
    parser.add_argument("--expect")
    parser.add_argument("--write")
    parser.add_argument("--only", default="")
    parser.add_argument("--kinds", default="node")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    tests = []
    for kind in args.kinds.split(","):
        base = os.path.join(args.suite, kind)
        for name in sorted(os.listdir(base)):
            if args.only not in name:
                continue
            folder = os.path.join(base, name)
            with open(os.path.join(folder, "meta.json")) as file:
                meta = json.load(file)
            tests.append((name, folder, meta))
    failures, crashes = {}, []
    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        jobs = {}
        for name, folder, meta in tests:
            if is_plain(meta):
                jobs[pool.submit(run_one, folder, meta, args.tegula)] = name
            else:
                counts["not plain"] += 1
        for job in concurrent.futures.as_completed(jobs):
            name, why = jobs[job], job.result()
            counts["failed" if why else "passed"] += 1
            if why:
                failures[name] = why.replace("\\", "/").replace('"', "'")
                if why.startswith("CRASH"):
                    crashes.append(name)
    total = counts["passed"] + counts["failed"]
    print(f"{counts['passed']} of {total} plain tests pass", f"({counts['not plain']} others)")
    if args.write:
        with open(args.write, "w") as file:
            file.write("# Plain node tests of ONNX's backend suite that fail, with the cause.\n")
            file.write("# Written by scripts/onnx_suite.py --write; a listed test that passes fails.\n")
            for name in sorted(failures):
                file.write(f'{name} = "{failures[name]}"\n')
    wrong = [f"{name}: {failures[name]}" for name in crashes]
    if args.expect:
        listed = read_list(args.expect)
        run = {name for name, _, meta in tests if is_plain(meta)}
        wrong += [f"{n}: not listed: {why}" for n, why in failures.items() if n not in listed]
        wrong += [f"{n}: listed, but passes" for n in listed if n in run and n not in failures]
    elif not args.write:
        wrong += [f"{name}: {why}" for name, why in sorted(failures.items())]
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
