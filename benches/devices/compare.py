"""Programs for eight devices on Tegula and on XLA's own CPU client: bytes exchanged, and time.

    PYTHONPATH=python/src TEGULA_LIBRARY=.../libtegula_pjrt.so python benches/devices/compare.py

Runs the programs of `python/tests/sharded_programs.py` and prints a table in Markdown. Bytes are what
one device sends, counted in the same way in the programs of a device that both compilers give
(`compiled.as_text()`); an exchange in a loop counts once. Times are the best of several calls, in
microseconds.
"""

import argparse
import math
import os
import pathlib
import re
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu,xlacpu"
os.environ["JAX_NUM_CPU_DEVICES"] = "8"
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python" / "tests"))

import jax  # noqa: E402

from sharded_programs import PROGRAMS  # noqa: E402

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
         "collective-broadcast")
EXCHANGE = re.compile(rf"= (\([^)]*\)|\S+) ({'|'.join(KINDS)})(?:-start)?\(.*")
ARRAY = re.compile(r"(pred|[a-z]+\d+)\w*\[([\d,]*)\]")
DEVICES = 8


def array_bytes(text):
    total = 0
    for kind, dims in ARRAY.findall(text):
        bits = 8 if kind == "pred" else int(re.sub(r"\D", "", kind))
        total += math.prod(map(int, filter(None, dims.split(",")))) * max(bits // 8, 1)
    return total


def group_size(line):
    listed = re.search(r"replica_groups=\{\{([\d,]+)\}", line)
    if listed:
        return len(listed.group(1).split(","))
    iota = re.search(r"replica_groups=\[(\d+),(\d+)\]", line)
    return int(iota.group(2)) if iota else DEVICES


def sent(text):
    """The bytes that a device sends in the collectives of an HLO text."""
    total = 0
    for match in EXCHANGE.finditer(text):
        line, size = match.group(0), array_bytes(match.group(1))
        n = group_size(line)
        if match.group(2) == "collective-permute":
            pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", line)
            total += size * len(re.findall(r"\d+,\d+", pairs.group(1) + "}")) / DEVICES
        elif match.group(2) == "all-reduce":
            total += 2 * size * (n - 1) / n
        elif match.group(2) == "reduce-scatter":
            total += size * (n - 1)
        elif match.group(2) == "collective-broadcast":
            total += size
        else:
            total += size * (n - 1) / n
    return total


def measure(f, make, seconds):
    """The shortest time of a call; donated arguments are created again for each call."""
    best, end = math.inf, time.perf_counter() + seconds
    arguments = make()
    while True:
        if any(x.is_deleted() for x in jax.tree.leaves(arguments) if isinstance(x, jax.Array)):
            arguments = make()
            jax.block_until_ready(arguments)
        start = time.perf_counter()
        jax.block_until_ready(f(*arguments))
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() > end:
            return best * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each measurement")
    arguments = parser.parse_args()
    print("| program | bytes, Tegula | bytes, XLA | us, Tegula | us, XLA |")
    print("|---|---|---|---|---|")
    bytes_ratios, time_ratios = [], []
    for name, program in PROGRAMS.items():
        if not re.search(arguments.only, name):
            continue
        row = []
        for devices in (jax.devices(), jax.devices("xlacpu")):
            with jax.default_device(devices[0]):
                f, inputs = program(devices)
                text = f.lower(*inputs).compile().as_text()
                f(*inputs)
                make = lambda: program(devices)[1]
                row.append((sent(text), measure(f, make, arguments.seconds)))
        (own_bytes, own_time), (peer_bytes, peer_time) = row
        print(f"| {name} | {own_bytes:.0f} | {peer_bytes:.0f} | {own_time:.0f} | {peer_time:.0f} |",
              flush=True)
        time_ratios.append(own_time / peer_time)
        if peer_bytes and own_bytes:
            bytes_ratios.append((own_bytes / peer_bytes, name))
    mean = lambda values: math.exp(sum(map(math.log, values)) / max(len(values), 1))
    print(f"\nbytes: {mean([r for r, _ in bytes_ratios]):.2f} of XLA's in the geometric mean of "
          f"{len(bytes_ratios)} programs, at most {max(bytes_ratios)}; "
          f"time: {mean(time_ratios):.2f}")


if __name__ == "__main__":
    main()
