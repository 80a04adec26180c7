"""Compares Tegula's results with XLA:CPU's on many small programs, and lists failures by cause.

    cargo build --release --bin tegula
    python benches/conformance/run.py harnesses FOLDER [--sample N] [--only REGEX] [--table FILE]
    python benches/conformance/run.py symbolic FOLDER [--only REGEX] [--table FILE]
    python benches/conformance/run.py libraries FOLDER [--only REGEX] [--table FILE]
    python benches/conformance/run.py programs FOLDER --modules FILES... [--table FILE]
    python benches/conformance/run.py decompositions FOLDER [--only REGEX] [--table FILE]
    python benches/conformance/run.py written FOLDER --modules FILES... [--table FILE]

needs `jax[cpu]`, `numpy` and `absl-py`. Suites:

harnesses   JAX's primitive harnesses (`jax._src.internal_test_util.test_harnesses`): what JAX
            itself tests its exporters with. Each is lowered from a jitted function to HLO text, or
            to StableHLO with `--form`, run by `tegula run` and held against XLA:CPU's results on
            the same inputs.
symbolic    Functions that `jax.export` gives with symbolic sizes: one file, run at five sizes each
            and held against XLA:CPU at these sizes.
libraries   Programs of the JAX libraries that are installed, in `f32` and with 64-bit types:
            `benches/peers/cliffs/generate.py FOLDER --install` installs them all.
decompositions  LAPACK's routines as JAX calls them, on matrices of every kind: empty, several at once,
            with a NaN or an infinity, without full rank.
programs    HLO files, for example XLA's own (`xla/**/*.hlo` of its repository), cut in front of
            each `HloModule`, and the programs in its C++ tests (`xla/**/*_test.cc`). What XLA's parser takes must be read. What is read is run on
            `--targets`, where its inputs are small, and the targets are held against each other;
            with `--xla`, what the last target gives is held against XLA:CPU's results, too.
written     StableHLO texts that Tegula wrote (`tegula compile --emit stablehlo`, or the example
            `random_stablehlo` of `tests`), NAME.mlir with NAME.hlo and NAME.npz: XLA:CPU compiles and
            runs both, and what it gives for one is held against what it gives for the other.

FOLDER keeps what was made (NAME.hlo, NAME.npz) of failures, and `results.jsonl`, a line for each
program that is done: a run that was stopped goes on where it was, and `--again CAUSE` does those
with that cause once more. The table counts outcomes and lists every failure with its cause.

An outcome is one of
    agrees      the results are XLA's
    chaotic     of `libraries`: they differ, and so do XLA's own after a change by rounding
    refused     exit code 2: Tegula says that it cannot do it
    differs     the results are others
    broken      any other exit code, a panic, more than --timeout seconds
    read        of `programs`: read, but no target runs it (collectives, custom calls, ...)
    not xla's   XLA:CPU itself refuses the program: nothing is claimed
"""

import argparse
import collections
import datetime
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benches/conformance"))
FAILURES = ("refused", "differs", "broken")


def cause(done):
    """The error message of a failed command, in one line."""
    lines = (done.stderr or "").strip().splitlines()
    panics = [line for line in lines if "panicked at" in line]
    errors = [line for line in lines if line.startswith("error")]
    line = (panics or errors or lines or ["no message"])[0]
    # File paths are not part of a cause, so that equal causes have equal texts.
    return re.sub(r"/\S*/", "", line)[:200]


def tegula(arguments, *command):
    """The outcome and its cause for an exit code; None for success."""
    command = [arguments.tegula, *map(str, command)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=arguments.timeout, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return "broken", f"more than {arguments.timeout:.0f} s"
    if done.returncode == 0:
        return None
    return ("refused" if done.returncode == 2 else "broken"), cause(done)


class Results:
    """The file with the results so far."""

    def __init__(self, folder):
        self.path = folder / "results.jsonl"
        self.rows = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                row = json.loads(line)
                self.rows[row["name"]] = row

    def add(self, row):
        self.rows[row["name"]] = row
        with self.path.open("a") as file:
            print(json.dumps(row), file=file)

    def is_done(self, name, again):
        row = self.rows.get(name)
        return row is not None and not (again and re.search(again, f"{row['outcome']}: {row['cause']}"))


def table(rows, command):
    """Outcomes by suite, and every failure, as lines of Markdown."""
    counts = collections.Counter(row["outcome"] for row in rows)
    asked = sum(counts.values()) - counts["not xla's"] - counts["read"]
    lines = [
        f"`{command}`, {datetime.date.today()}: {counts['agrees']} of {asked} agree.",
        *([f"Read, but run by no target: {counts['read']}."] if counts["read"] else []),
        "",
        "| outcome | programs |",
        "|---|---:|",
        *(f"| {outcome} | {count} |" for outcome, count in counts.most_common()),
        "",
        "| cause | programs | for example |",
        "|---|---:|---|",
    ]
    failures = collections.defaultdict(list)
    for row in rows:
        if row["outcome"] in (*FAILURES, "read", "chaotic"):
            # Names and numbers are replaced, so that different programs have equal causes.
            about = re.sub(r"\S+\.hlo: (\S+: )?", "", row["cause"])
            about = re.sub(r"`[^`]*(`|$)", "`..`", about)
            about = re.sub(r"\d+(\.\d+)?(e[-+]\d+)?", "N", about)
            failures[row["outcome"], about.replace("|", "\\|")].append(row["name"])
    for (outcome, about), names in sorted(failures.items(), key=lambda item: -len(item[1])):
        lines.append(f"| {outcome}: {about} | {len(names)} | {min(names)[:60]} |")
    return lines


def selected(names, arguments):
    """The names to do, those that match. They are in an order that is the same each time and has
    nothing to do with what they are: the first ones are a sample."""
    if arguments.only:
        names = [name for name in names if re.search(arguments.only, name)]
    names = sorted(names, key=lambda name: zlib.crc32(name.encode()))
    return names[: arguments.sample]


def main():
    parser = argparse.ArgumentParser(description="Tegula against XLA:CPU on many programs")
    suites = ("harnesses", "symbolic", "libraries", "programs", "written", "decompositions")
    parser.add_argument("suite", choices=suites)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument(
        "--form",
        default="hlo",
        help="of harnesses: hlo, mlir (text), exported (bytecode of jax.export), newest or a version of VHLO",
    )
    parser.add_argument("--sample", type=int, help="so many programs, always the same ones")
    parser.add_argument("--only", metavar="REGEX", help="programs whose names match")
    parser.add_argument("--again", metavar="REGEX", help="those done whose `outcome: cause` matches")
    parser.add_argument("--modules", nargs="+", type=pathlib.Path, default=[], help="files or folders")
    parser.add_argument("--targets", nargs="+", default=["interp", "plan", "cpu"])
    parser.add_argument("--xla", action="store_true", help="of programs: hold results against XLA:CPU's")
    parser.add_argument("--tegula", default=str(ROOT / "target/release/tegula"))
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a command of ours")
    parser.add_argument("--table", type=pathlib.Path, help="write the table to this file")
    parser.add_argument("--strict", action="store_true", help="any failure is exit code 1")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    results = Results(arguments.folder)
    suite = importlib.import_module(arguments.suite)
    programs = suite.programs(arguments)
    names = selected(list(programs), arguments)
    for number, name in enumerate(names):
        if results.is_done(name, arguments.again):
            continue
        outcome, about = suite.judge(name, programs[name], arguments)
        results.add({"name": name, "outcome": outcome, "cause": about})
        if outcome in FAILURES or number % 100 == 0:
            print(f"{number}/{len(names)} {name}: {outcome} {about}", file=sys.stderr, flush=True)
    rows = [results.rows[name] for name in names]
    command = f"benches/conformance/run.py {arguments.suite}"
    if arguments.form != "hlo":
        command += f" --form {arguments.form}"
    if arguments.sample or arguments.only:
        command += f", {len(names)} of {len(programs)}"
    text = "\n".join(table(rows, command)) + "\n"
    if arguments.table:
        arguments.table.write_text(text)
    print(text)
    failed = any(row["outcome"] in FAILURES for row in rows)
    return 1 if failed and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
