"""JAX's primitive harnesses through the plug-in, beside XLA in the same process.

    python python/conformance/harnesses.py FOLDER [--sample N] [--only REGEX] [--again REGEX]

Each harness runs on XLA's CPU client and on Tegula (in the slot "tegula"); the results are judged as
`benches/conformance` judges them. A process does many harnesses; one that crashes or takes too long
counts against the harness that it was at, and the rest goes on in another. FOLDER keeps what is
done, so that a run can be continued. Needs the package `tegula-jax`.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import selectors
import subprocess
import sys
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benches/conformance"))


def harnesses():
    import jax
    from jax._src.internal_test_util import test_harnesses

    jax.config.update("jax_enable_x64", True)
    found = {h.fullname: h for h in test_harnesses.all_harnesses if h.filter("cpu")}
    return found


def ordered(names, arguments):
    """The names to do, in an order that is the same each time and independent of what they are."""
    if arguments.only:
        names = [name for name in names if re.search(arguments.only, name)]
    return sorted(names, key=lambda name: zlib.crc32(name.encode()))[: arguments.sample]


def judge(name, harness):
    """The outcome of a harness and what is wrong."""
    import jax
    import judged
    import numpy as np

    def host(leaf):
        is_key = jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)
        return np.asarray(leaf) if isinstance(leaf, jax.Array) and not is_key else leaf

    def make():
        # Once: some are not the same when they are made again.
        with jax.default_device(jax.devices("cpu")[0]):
            given = harness.dyn_args_maker(np.random.RandomState(zlib.crc32(name.encode())))
        return jax.tree.map(host, given)

    def run(device):
        with jax.default_device(device):
            return arrays(jax.jit(harness.dyn_fun, keep_unused=True)(*given))

    def arrays(tree):
        leaves = []
        for leaf in jax.tree.leaves(tree):
            if jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key):
                leaf = jax.random.key_data(leaf)
            leaves.append(np.asarray(leaf))
        return leaves

    try:
        given = make()
        inputs, expected = arrays(given), run(jax.devices("cpu")[0])
    except Exception as error:
        return "not xla's", " ".join(str(error).split())[:200]
    try:
        found = run(jax.devices("tegula")[0])
    except Exception as error:
        return "refused", " ".join(str(error).split())[:200]
    try:
        wrong = judged.difference(harness, inputs, expected, found)
    except Exception as error:
        wrong = f"not judged: {error!r}"[:200]
    return ("differs", wrong) if wrong else ("agrees", "")


def work(folder):
    """A worker: does the harnesses whose names it is given, a line each way."""
    known = harnesses()
    print("ready", flush=True)
    for line in sys.stdin:
        name = json.loads(line)
        outcome, about = judge(name, known[name])
        print("row " + json.dumps({"name": name, "outcome": outcome, "cause": about}), flush=True)


class Worker:
    def __init__(self, folder, timeout):
        environment = {**os.environ, "TEGULA_SLOT": "tegula", "JAX_PLATFORMS": "cpu,tegula"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(folder), "--worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, bufsize=1, env=environment,
        )
        self.timeout = timeout
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.line("ready", 120)

    def line(self, beginning, timeout):
        """The next line that begins so; None if none comes."""
        while self.selector.select(timeout):
            line = self.process.stdout.readline()
            if not line:
                return None
            if line.startswith(beginning):
                return line[len(beginning) :]
        return None

    def judge(self, name):
        try:
            self.process.stdin.write(json.dumps(name) + "\n")
            line = self.line("row ", self.timeout)
        except BrokenPipeError:
            line = None
        if line:
            return json.loads(line)
        ended = self.process.poll()
        self.process.kill()
        about = "took too long" if ended is None else f"the process ended with {ended}"
        return {"name": name, "outcome": "crash", "cause": about}


def main():
    parser = argparse.ArgumentParser(description="JAX's primitive harnesses through the plug-in")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--sample", type=int, help="so many harnesses, always the same ones")
    parser.add_argument("--only", metavar="REGEX", help="harnesses whose names match")
    parser.add_argument("--again", metavar="REGEX", help="those done whose `outcome: cause` matches")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for a harness")
    parser.add_argument("--strict", action="store_true", help="any failure is exit code 1")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments.folder)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    path = arguments.folder / "results.jsonl"
    rows = {}
    if path.exists():
        rows = {row["name"]: row for row in map(json.loads, path.read_text().splitlines())}
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    names = ordered(list(harnesses()), arguments)
    worker = None
    with path.open("a") as file:
        for number, name in enumerate(names):
            row = rows.get(name)
            again = arguments.again
            if row and not (again and re.search(again, f"{row['outcome']}: {row['cause']}")):
                continue
            worker = worker or Worker(arguments.folder, arguments.timeout)
            row = rows[name] = worker.judge(name)
            if row["outcome"] == "crash":
                worker = None
            print(json.dumps(row), file=file, flush=True)
            if row["outcome"] not in ("agrees", "not xla's") or number % 100 == 0:
                print(f"{number}/{len(names)} {name}: {row['outcome']} {row['cause']}", flush=True)
    counts = collections.Counter(rows[name]["outcome"] for name in names)
    asked = sum(counts.values()) - counts["not xla's"]
    print(f"{counts['agrees']} of {asked} agree: {dict(counts)}")
    return 1 if arguments.strict and counts["agrees"] < asked else 0


if __name__ == "__main__":
    sys.exit(main())
