"""The own tests of libraries that are written with JAX, with XLA and with Tegula.

    python python/conformance/libraries.py FOLDER [--only REGEX] [--sources DIR] [--timeout S]

`libraries.toml` beside this program names the libraries and the files of their tests. Each must be
installed; its tests are cloned from its repository at the tag of the installed version into
FOLDER/sources, or taken from DIR/NAME. Each file is run twice, each time in a process of its own: by XLA's
client (TEGULA_SLOT=off) and by Tegula's. FOLDER keeps what each run gave, so that all can be continued.

Printed are the tests that pass with XLA and how many of those pass with Tegula, the names of those that
do not, and the time of all runs of a library: XLA's divided by ours, above 1 when ours is shorter. A
run's time is that of its process, with the import of JAX, tracing and compiling. A file whose run by XLA
does not end, or does not start because another package is missing, is left out. The exit code is 1 if a
test that passes with XLA fails with Tegula.
"""

import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version

import pytest_file

HERE = pathlib.Path(__file__).resolve().parent
SLOTS = {"xla": "off", "tegula": "cpu"}


def checkout(name, library, arguments):
    """The folder of a library's tests."""
    if arguments.sources:
        return arguments.sources / name
    folder = arguments.folder / "sources" / name
    if not folder.exists():
        tag = library["tag"].format(version(library["package"]))
        subprocess.run(
            ["git", "clone", "--quiet", "--depth", "1", "--branch", tag, library["repository"], folder],
            check=True,
        )
    return folder


def run(name, file, source, slot, arguments):
    report = arguments.folder / f"{name}.{pathlib.Path(file).stem}.{slot}.xml"
    environment = {"JAX_PLATFORMS": "cpu", **os.environ, "TEGULA_SLOT": SLOTS[slot]}
    return pytest_file.run(
        file, cwd=source, environment=environment, report=report, timeout=arguments.timeout,
    )


def compare(name, runs):
    """A library's line of the table and its ratio, and the tests that pass with XLA alone.

    The line is None if XLA ended no file.
    """
    passes = lost = 0
    seconds = {slot: 0.0 for slot in SLOTS}
    names = []
    ended = {file: rows for file, rows in runs.items() if rows["xla"]["end"] == "ended"}
    for file, rows in ended.items():
        passed = {test for test, outcome in rows["xla"]["outcomes"].items() if outcome == "passed"}
        failed = sorted(test for test in passed if rows["tegula"]["outcomes"].get(test) != "passed")
        passes += len(passed)
        lost += len(failed)
        names += [f"{name} {file} {test} ({rows['tegula']['end']})" for test in failed]
        for slot in SLOTS:
            seconds[slot] += rows[slot]["seconds"]
    if not ended:
        return None, None, []
    ratio = seconds["xla"] / seconds["tegula"]
    line = (
        f"| {name} | {len(ended)} | {passes} | {passes - lost} "
        f"| {seconds['xla']:.0f} | {seconds['tegula']:.0f} | {ratio:.2f} |"
    )
    return line, ratio, names


def main():
    parser = argparse.ArgumentParser(description="Libraries' own tests with XLA and with Tegula")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", metavar="REGEX", default="", help="libraries whose names match")
    parser.add_argument("--again", metavar="REGEX", help="files to run again with Tegula")
    parser.add_argument("--sources", type=pathlib.Path, help="folder of checkouts")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for a file")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)

    results = arguments.folder / "results.jsonl"
    done = {}
    if results.exists():
        done = {tuple(row.pop("key")): row for row in map(json.loads, results.read_text().splitlines())}
    lines, ratios, lost = [], [], []
    with results.open("a") as log:
        for name, library in tomllib.loads((HERE / "libraries.toml").read_text()).items():
            if not re.search(arguments.only, name):
                continue
            source = checkout(name, library, arguments)
            runs = {}
            for file in library["files"]:
                again = arguments.again and re.search(arguments.again, f"{name}/{file}")
                runs[file] = {}
                for slot in SLOTS:
                    key = (name, file, slot)
                    row = done.get(key)
                    if row is None or (again and slot == "tegula"):
                        row = run(name, file, source, slot, arguments)
                        print(json.dumps({"key": key, **row}), file=log, flush=True)
                    runs[file][slot] = row
                times = [f"{slot} {row['seconds']:.1f} s ({row['end']})" for slot, row in runs[file].items()]
                print(f"{name} {file}: {' and '.join(times)}", flush=True)
            line, ratio, names = compare(name, runs)
            if line is not None:
                lines.append(line)
                ratios.append(ratio)
                lost += names
    if not lines:
        sys.exit("XLA ended none of these files: the lines above say how each ended")
    print("\n| library | files | pass with XLA | of them with Tegula | XLA s | Tegula s | XLA / Tegula |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    print("\n".join(lines))
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\nGeometric mean of the last column: {mean:.2f}")
    print("\n".join(lost))
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
