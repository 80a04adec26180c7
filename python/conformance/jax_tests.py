"""JAX's own test files through the plug-in.

    python python/conformance/jax_tests.py FOLDER --jax-source DIR [--only REGEX] [--timeout S]

DIR is a checkout of the tag of the installed jax. Each file runs in a process of its own, with
JAX_NUM_GENERATED_CASES=1. FOLDER keeps what each file gave, so that a run can be continued. Two
scores are printed: passed / (collected - skipped - expected failures) of the files that ended, and
the same with every test of a file that crashed or took too long as a failure.

`known_failures/JAXVERSION/FILE.txt` beside this program lists the tests that are known to fail, one a
line, under a line that begins with `#` and says why; with `--strict` a failure that is not there, or
one there that passes, is exit code 1.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import sys

import pytest_file

HERE = pathlib.Path(__file__).resolve().parent


def run(file, arguments):
    """What a file gave: the outcome of each test that ended, how many there are, and its end."""
    row = pytest_file.run(
        f"tests/{file.name}", cwd=arguments.jax_source, timeout=arguments.timeout,
        environment={"JAX_PLATFORMS": "cpu", "JAX_NUM_GENERATED_CASES": "1", **os.environ},
        report=arguments.folder / (file.stem + ".xml"),
    )
    return {"file": file.name, **row}


def score(rows):
    """Passed and asked, of files that ended and of all."""
    passed = asked = lost = 0
    for row in rows:
        kinds = collections.Counter(row["outcomes"].values())
        counted = row["count"] - kinds["skipped"] - kinds["xfailed"]
        if row["end"] == "ended":
            passed += kinds["passed"]
            asked += counted
        else:
            lost += counted
    return passed, asked, lost


def drift(row, version):
    """How the failures of a file differ from those that are known."""
    path = HERE / "known_failures" / version / (row["file"] + ".txt")
    lines = path.read_text().splitlines() if path.exists() else []
    known = {line for line in lines if line and not line.startswith("#")}
    failed = {name for name, outcome in row["outcomes"].items() if outcome == "failed"}
    passed = {name for name, outcome in row["outcomes"].items() if outcome == "passed"}
    return sorted(failed - known), sorted(known & passed)


def main():
    parser = argparse.ArgumentParser(description="JAX's own test files through the plug-in")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--jax-source", type=pathlib.Path, required=True)
    parser.add_argument("--only", metavar="REGEX", default="", help="files whose names match")
    parser.add_argument("--again", metavar="REGEX", help="files done whose names match")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for a file")
    parser.add_argument("--strict", action="store_true", help="unknown failures are exit code 1")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    from importlib.metadata import version

    results = arguments.folder / "results.jsonl"
    done = {}
    if results.exists():
        done = {row["file"]: row for row in map(json.loads, results.read_text().splitlines())}
    files = sorted((arguments.jax_source / "tests").glob("*_test.py"))
    rows = []
    with results.open("a") as log:
        for file in files:
            if not re.search(arguments.only, file.name):
                continue
            row = done.get(file.name)
            if row is None or (arguments.again and re.search(arguments.again, file.name)):
                row = run(file, arguments)
                print(json.dumps(row), file=log, flush=True)
            rows.append(row)
            kinds = dict(collections.Counter(row["outcomes"].values()))
            print(f"{file.name}: {row['end']}, {row['count']} tests, {kinds}", flush=True)
    passed, asked, lost = score(rows)
    if asked:
        print(f"{passed} of {asked} ({100 * passed / asked:.1f} %) in files that ended")
        print(f"{passed} of {asked + lost} ({100 * passed / (asked + lost):.1f} %) in all files")
    drifts = [(row["file"], *drift(row, version("jax"))) for row in rows]
    if arguments.strict:
        for file, new, mended in drifts:
            for name in new:
                print(f"{file}: {name} fails and is not known to")
            for name in mended:
                print(f"{file}: {name} passes and is known to fail")
        return int(any(new or mended for _, new, mended in drifts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
