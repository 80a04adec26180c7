"""Compares programs compiled to objects with `tegula run`: the bits of results, and the time.

Each program is compiled (`tegula compile --emit library`), linked by `cc -shared`, and called from C; results
are compared with those of `tegula run` on the same inputs. Calls and `tegula bench --threads 1` take turns,
and the fastest of each counts. The spread is that of the turns' fastest: the slowest of them over the fastest.

    python benches/objects.py --tegula target/release/tegula CORPUS/*.hlo
"""

import argparse
import ctypes
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import ml_dtypes
import numpy as np

# C code that returns the time of the fastest of many calls, in seconds.
TIMER = """
#include <stdint.h>
#include <time.h>
int32_t m_call(const int64_t *, const void *const *, void *const *, void *);
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
double fastest_call(double seconds, const int64_t *sizes, const void *const *given, void *const *gives, void *arena) {
  double best = 1e9, start = now(), last = start;
  while (last - start < seconds) {
    if (m_call(sizes, given, gives, arena)) return -1;
    double end = now();
    if (end - last < best) best = end - last;
    last = end;
  }
  return best;
}
"""

TYPES = {"pred": np.bool_, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "c64": np.complex64, "c128": np.complex128}


def dtype(name):
    known = {"f": "float", "s": "int", "u": "uint"}
    return np.dtype(TYPES[name] if name in TYPES else known[name[0]] + name[1:])


def arrays(header, kind):
    """The shapes in the header's first comment, with names for symbolic sizes."""
    for line in re.findall(rf"^ \*   {kind} \w+: (.*)$", header, re.M):
        name, dims = re.fullmatch(r"(\w+)\[(.*)\]", line).groups()
        yield dtype(name), [int(d) if d.isdigit() else d for d in dims.split(", ") if d]


def open_sizes(header):
    """The names of the sizes that a call takes, in order."""
    listed = re.search(r"`sizes`: in this order: (.*?)\. \*/", header, re.S)
    return re.split(r"[\s*]*,[\s*]*", listed[1].strip()) if listed else []


def made_up(rng, kind, shape):
    if kind.kind in "iu":
        return rng.integers(0, 8, shape).astype(kind)
    if kind == np.bool_:
        return rng.integers(0, 2, shape).astype(kind)
    return rng.standard_normal(shape).astype(kind)


def aligned(count):
    memory = np.zeros(count + 4096, np.uint8)
    start = -memory.ctypes.data % 4096
    return memory[start : start + count]


def as_a_run_has_it(array):
    """A copy aligned to 64 bytes, as the arrays of a run are."""
    memory = aligned(array.nbytes)
    memory[:] = np.frombuffer(array.tobytes(), np.uint8)
    return memory.view(array.dtype).reshape(array.shape)


def distance(expected, result):
    """0 if the bits are the same; else the largest difference beside the largest number. The program may
    state that the dimensions of a result lie in another order."""
    orders = itertools.permutations(range(expected.ndim))
    orders = [order for order in orders if [expected.shape[d] for d in order] == list(result.shape)]
    least = float("inf")
    for order in orders:
        turned = np.ascontiguousarray(expected.transpose(order))
        if turned.tobytes() == result.tobytes():
            return 0
        a = turned.view(result.dtype).astype(np.complex128)
        b = result.astype(np.complex128)
        least = min(least, np.nanmax(np.abs(a - b)) / max(1e-30, np.nanmax(np.abs(a))))
    return least


def tegula(args, *command):
    return subprocess.run([args.tegula, *command], check=True, capture_output=True, text=True).stdout


def check(args, model, folder):
    cpu = ["--cpu", args.cpu]
    tegula(args, "compile", str(model), "--emit", "library", "--name", "m", "-o", str(folder), *cpu, *args.option)
    archive = folder / "libm.a"
    whole = ["-Wl,--whole-archive", str(archive), "-Wl,--no-whole-archive", "-Wl,--no-undefined", "-lm"]
    (folder / "timer.c").write_text(TIMER)
    timer = ["-O2", "-fPIC", str(folder / "timer.c")]
    subprocess.run(["cc", "-shared", "-o", str(folder / "m.so"), *timer, *whole], check=True)
    header = (folder / "m.h").read_text()
    library = ctypes.CDLL(str(folder / "m.so"))
    library.m_arena_bytes.restype = ctypes.c_int64
    library.fastest_call.restype = ctypes.c_double
    library.fastest_call.argtypes = [ctypes.c_double] + [ctypes.c_void_p] * 4
    stored = {}
    if model.with_suffix(".npz").exists():
        stored = dict(np.load(model.with_suffix(".npz")))
    rng = np.random.default_rng(0)
    inputs, sizes = [], {}
    for number, (kind, shape) in enumerate(arrays(header, "parameter")):
        given = stored.get(f"in{number}")
        if given is not None:
            sizes.update((dim, size) for dim, size in zip(shape, given.shape) if isinstance(dim, str))
        shape = [sizes.setdefault(dim, 8) if isinstance(dim, str) else dim for dim in shape]
        if given is None:
            given = made_up(rng, kind, shape)
        inputs.append(as_a_run_has_it(np.ascontiguousarray(given).view(kind).reshape(shape)))
    # A symbolic dimension may be a term over the sizes.
    size_of = lambda dim: dim if isinstance(dim, int) else int(eval(dim, {}, dict(sizes)))
    shapes = [(kind, [size_of(dim) for dim in shape]) for kind, shape in arrays(header, "result")]
    results = [as_a_run_has_it(np.zeros(shape, kind)) for kind, shape in shapes]
    names = open_sizes(header)
    open_at = (ctypes.c_int64 * len(names))(*(sizes[name] for name in names)) if names else None
    arena = aligned(library.m_arena_bytes(open_at))
    pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)
    pack = lambda all: (ctypes.c_void_p * max(1, len(all)))(*map(pointer, all))
    given, gives, arena_at = pack(inputs), pack(results), pointer(arena)

    saved = {f"in{number}": value for number, value in enumerate(inputs)}
    views = lambda a: a.view(np.uint16) if a.dtype == ml_dtypes.bfloat16 else a
    np.savez(folder / "inputs.npz", **{name: views(value) for name, value in saved.items()})
    assert library.m_call(open_at, given, gives, arena_at) == 0
    tegula(args, "run", str(model), "--inputs", str(folder / "inputs.npz"), "--outputs", str(folder / "out.npz"), *cpu)
    wanted = np.load(folder / "out.npz")
    apart = 0
    for number, result in enumerate(results):
        apart = max(apart, distance(wanted[f"out{number}"], result))
    calls, runs = [], []
    for _ in range(args.turns):
        calls.append(library.fastest_call(args.seconds, open_at, given, gives, arena_at))
        assert calls[-1] > 0
        options = ["--threads", "1", "--json", *cpu]
        said = tegula(args, "bench", str(model), "--inputs", str(folder / "inputs.npz"), *options)
        runs.append(json.loads(said)["run_ms_min"] / 1e3)
    best, run = min(calls, default=0), min(runs, default=0)
    spread = max(max(times) / min(times) for times in (calls, runs)) if args.turns else 1
    same = "same bits" if apart == 0 else f"apart {apart:.1e}"
    ratio = best / run if args.turns else 0
    size = archive.stat().st_size
    times = f"{best * 1e3:9.4f} {run * 1e3:9.4f} {ratio:6.3f} {spread:5.2f}"
    print(f"{model.stem:24} {same:14} {times} {size:9}", flush=True)
    return ratio


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--tegula", default="target/release/tegula")
    parser.add_argument("--cpu", default="x86-64-v4")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="of calls in each turn")
    parser.add_argument("--option", action="append", default=[], help="one more of `tegula compile`")
    args = parser.parse_args()
    ratios = []
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            try:
                ratios.append(check(args, model, pathlib.Path(folder)))
            except subprocess.CalledProcessError as error:
                said = (error.stderr or "").strip().splitlines()
                print(f"{model.stem:24} refused: {said[0] if said else error}", flush=True)
    if ratios and args.turns:
        mean = float(np.exp(np.mean(np.log(ratios))))
        print(f"{len(ratios)} objects, geometric mean of the ratios {mean:.3f}", file=sys.stderr)


if __name__ == "__main__":
    main()
