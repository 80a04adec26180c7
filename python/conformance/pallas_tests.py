"""JAX's own tests of Pallas kernels for TPUs, on the simulated chip.

    python python/conformance/pallas_tests.py FOLDER --jax-source DIR [--only REGEX] [--chip NAME]

DIR is a checkout of the tag of the installed jax. Each file of tests/pallas/tpu_*_test.py that is
about the TensorCore runs in a process of its own, with a simulator active and JAX's test utilities
told that the device is a TPU; those are the kernels of `jax/experimental/pallas/ops/tpu`, too, which
have their tests there. FOLDER keeps what each file gave, so that a run can be continued.

The table counts kernels (one for each time that one is lowered): read and verified, printed, run to
their end without an error of the simulator; and tests: those with kernels that passed, of those that
JAX did not skip. Then come the reasons of what did not run, and the findings.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent

# SparseCore is another machine; the others are about interpreters and the libraries' Python.
LEFT_OUT = re.compile(r"sparsecore|interpret|mask_test|info_test|mpmd")
SEVERAL = re.compile(r"distributed|sharded|all_gather")
LATER = ("printed", "run")


def run(file, arguments):
    rows = arguments.folder / (file.stem + ".jsonl")
    rows.unlink(missing_ok=True)
    environment = {
        "JAX_PLATFORMS": "cpu", "TEGULA_SLOT": "off", "JAX_NUM_GENERATED_CASES": "1", **os.environ,
        "TEGULA_PALLAS_TESTS": str(rows.resolve()), "TEGULA_PALLAS_CHIP": arguments.chip,
        "TEGULA_JAX_SOURCE": str(arguments.jax_source.resolve()),
        "TEGULA_PALLAS_DEVICES": "4" if SEVERAL.search(file.name) else "1",
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
    }
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pallas_plugin",
        "--tb=line", f"tests/pallas/{file.name}",
    ]
    try:
        done = subprocess.run(
            command, cwd=arguments.jax_source, env=environment, text=True, capture_output=True,
            timeout=arguments.timeout, errors="replace",
        )
        said, end = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        said, end = str(late.stdout), "took too long"
    (arguments.folder / (file.stem + ".log")).write_text(said)
    if end not in (0, 1, 5):
        print(f"{file.name}: {end}", flush=True)


def read(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def reason(text):
    """An error without what differs from kernel to kernel."""
    text = next((line for line in text.splitlines() if line.strip()), "")
    text = re.sub(r"\S+\.py:\d+: ", "", text)
    return re.sub(r"\d+", "N", text)[:110]


def main():
    parser = argparse.ArgumentParser(description="JAX's tests of TPU kernels on the simulated chip")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--jax-source", type=pathlib.Path, required=True)
    parser.add_argument("--only", metavar="REGEX", default="", help="files whose names match")
    parser.add_argument("--again", action="store_true", help="also files that are done")
    parser.add_argument("--chip", default="v5e")
    parser.add_argument("--timeout", type=float, default=1200, help="seconds for a file")
    parser.add_argument("--tests", action="store_true", help="list tests that failed")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    total = collections.Counter()
    reasons, findings, failed = collections.Counter(), collections.Counter(), []
    print("| file | kernels | read, verified | printed | run | tests | agree |\n|---|---|---|---|---|---|---|")
    for file in sorted((arguments.jax_source / "tests" / "pallas").glob("tpu_*_test.py")):
        if LEFT_OUT.search(file.name) or not re.search(arguments.only, file.name):
            continue
        path = arguments.folder / (file.stem + ".jsonl")
        if arguments.again or not path.exists():
            run(file, arguments)
        counts = collections.Counter()
        for row in read(path):
            kernels = row["kernels"]
            # A kernel of a test that JAX ended before it was run asks nothing of the simulator.
            expected = [k for k in kernels if k["error"] or k["stage"] != "printed"]
            counts["kernels"] += len(expected)
            counts["read"] += sum(k["stage"] not in ("read",) for k in expected)
            counts["printed"] += sum(k["stage"] in LATER for k in expected)
            counts["run"] += sum(k["stage"] == "run" for k in expected)
            reasons.update(reason(k["error"]) for k in expected if k["stage"] != "run")
            findings.update(code for k in expected for code in k["codes"])
            if expected and row["outcome"] in ("passed", "failed"):
                counts["tests"] += 1
                counts["agree"] += row["outcome"] == "passed"
                if row["outcome"] == "failed":
                    failed.append((row["test"], row["error"]))
        total.update(counts)
        print_row(file.name.removesuffix("_test.py"), counts)
    print_row("all", total)
    for title, counted in (("what did not run", reasons), ("findings", findings)):
        print(f"\n{title}:")
        for text, count in counted.most_common(60):
            print(f"{count:5}  {text}")
    if arguments.tests:
        for test, error in failed:
            print(f"\n{test}\n  {error[:600]}")


def print_row(name, counts):
    cells = [str(counts[key]) for key in ("kernels", "read", "printed", "run", "tests", "agree")]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
