"""Tegula beside XLA:CPU, on the same programs, in one run.

    cargo build --release --bin tegula
    python benches/peers/run.py [FOLDER] [--threads 1 2] [--only NAME ...] [--json FILE]

needs `jax[cpu]` and `numpy`. FOLDER (by default examples/models) holds NAME.hlo, and
either NAME.npz with the inputs in0, in1, ... or NAME.json with how inputs are rebuilt,
as in the corpus (its format is described in tests/src/corpus.rs). It prints a table in
Markdown, progress on stderr.

The rules:

- XLA gets the same HLO text through its own CPU client; nothing goes through jax.jit.
  The way there (StableHLO) forgets which layouts the text states for results, so they
  are stated again: both sides give results in the order of the text.
- Both get the same inputs, in memory before the clock starts. Nothing is frozen: weights
  are inputs like any other. Results are arrays of the caller's, who drops them before the
  next run: both sides may give that the same memory.
- With N threads, both processes are bound to the same N cores.
- Rounds are interleaved: us, XLA, us, XLA, ... A round repeats the program for about a
  second. The fastest run of all rounds counts, because what disturbs a run on a shared
  machine only makes it slower.
- The floor, the time of a program that copies eight numbers, is measured on both sides
  and subtracted: it is the cost of a call (XLA is called from Python, Tegula from Rust).
  A program that takes either side less than ten floors says more about calls than about
  programs: it is reported apart and enters no mean.
- Compiling: the fastest of three. XLA's compile alone, from its own IR; ours with reading
  and verifying the text.
- Memory: temporaries and results. Ours is the arena and the results, XLA's is what its
  executable's memory statistics say.
- Ratios are XLA / ours: above 1, ours is faster or smaller. Means are geometric.
- Results are compared once, element by element, with the largest of XLA's as the scale.
  Where they are further apart than TOLERANCES says the program is named below the table.
"""

import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLOOR = """HloModule floor
ENTRY main { p = f32[8] parameter(0) ROOT c = f32[8] copy(p) }
"""
SECONDS_A_ROUND = 1.0
# A program whose round takes longer than this is not repeated in further rounds.
LONG_ROUND = 10.0
# How far results may be apart, as a share of the largest, by the narrowest type in the text:
# a few units in the last place of what values in between are rounded to.
TOLERANCES = ((r"\bf[48]e\d", 0.2), (r"\bbf16\[", 0.03), (r"\bf16\[", 4e-3), ("", 1e-4))


# Inputs.


def splitmix(words):
    import numpy as np

    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def build_input(name, arg, spec):
    """An input of the corpus from its spec, bit for bit."""
    import ml_dtypes
    import numpy as np

    kind, shape, dtype, a, b = (*spec, None)[:5]
    dtype = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    seed = np.uint64(zlib.crc32(name.encode()) << 32 | arg)
    out = np.empty(math.prod(shape), dtype)
    f32 = np.float32
    for start in range(0, out.size, 1 << 20):
        stop = min(start + (1 << 20), out.size)
        index = np.arange(start + 1, stop + 1, dtype=np.uint64)
        words = splitmix(seed + index * np.uint64(0x9E3779B97F4A7C15))
        if kind == "normal":
            lanes = sum((words >> np.uint64(16 * i)) & np.uint64(0xFFFF) for i in range(4))
            t = lanes.astype(np.int64) - 131070
            values = t.astype(f32) * f32(1 / 37837.2275) * f32(a) + f32(b)
        elif kind == "uniform":
            values = (words >> np.uint64(40)).astype(f32) * f32(2**-24) * f32(b - a) + f32(a)
        elif kind == "integers":
            values = int(a) + ((words >> np.uint64(32)) % np.uint64(int(b) - int(a))).astype(np.int64)
        elif kind == "const":
            values = np.full(stop - start, a)
        else:
            raise ValueError(f"inputs of kind {kind} are not known")
        out[start:stop] = values.astype(dtype)
    return out.reshape(shape)


def inputs_file(hlo, scratch):
    """An npz with the inputs of a program."""
    description = hlo.with_suffix(".json")
    if not description.exists():
        return hlo.with_suffix(".npz")
    import numpy as np

    arrays = {}
    for p in json.loads(description.read_text())["params"]:
        array = build_input(hlo.stem, p["arg"], p["spec"])
        if array.dtype.name == "bfloat16":
            array = array.view(np.uint16)
        arrays[f"in{p['param']}"] = array
    path = scratch / "inputs.npz"
    np.savez(path, **arrays)
    return path


def layout_text(shape):
    return "{" + ",".join(map(str, shape.layout().minor_to_major())) + "}"


def stating_layouts(stablehlo, program_shape):
    """A StableHLO program that states the layouts of its results as its HLO text did."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    for shape in program_shape.parameter_shapes():
        order = shape.layout().minor_to_major()
        if list(order) != sorted(order, reverse=True):
            raise ValueError("a parameter is stated not to be row-major: its array is not put so")
    result = program_shape.result_shape()
    shapes = result.tuple_shapes() if result.is_tuple() else [result]
    with mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(stablehlo)
        names = {f.attributes["sym_name"].value: f for f in module.body.operations}
        main = names["main"]
        old = main.attributes["res_attrs"] if "res_attrs" in main.attributes else [[]] * len(shapes)
        new = []
        for entries, shape in zip(old, shapes):
            entries = {entry.name: entry.attr for entry in entries}
            entries["mhlo.layout_mode"] = ir.StringAttr.get(layout_text(shape))
            new.append(ir.DictAttr.get(entries))
        main.attributes["res_attrs"] = ir.ArrayAttr.get(new)
        return str(module)


# XLA, in a process of its own: the number of threads is fixed when it starts.


def serve():
    """Answers requests, a JSON object a line: load a program, run it for a round."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import numpy as np
    from jax._src.lib import _jax, xla_client

    # Inputs keep their types.
    jax.config.update("jax_enable_x64", True)
    from jaxlib import lapack

    # Where its routines are: JAX says so when it lowers a call of one, which nothing does here.
    lapack._lapack.initialize()
    device = jax.devices("cpu")[0]
    client = device.client
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def save(results, path):
        """Results as out0, out1, ..., those of types that numpy has not as their bits."""
        arrays = {}
        for i, [result] in enumerate(results.disassemble_into_single_device_arrays()):
            array = np.asarray(result)
            known = array.dtype.kind in "biufc"
            arrays[f"out{i}"] = array if known else array.view(f"u{array.dtype.itemsize}")
        np.savez(path, **arrays)

    def load(request):
        module = xla_client.hlo.hlo_module_from_text(pathlib.Path(request["hlo"]).read_text())
        proto = module.as_serialized_hlo_module_proto()
        program_shape = xla_client.XlaComputation(proto).program_shape()
        stablehlo = xla_client._xla.mlir.hlo_to_stablehlo(proto)
        stablehlo = stating_layouts(stablehlo, program_shape)
        devices = _jax.DeviceList((device,))
        times = []
        while len(times) < 3:
            start = time.perf_counter()
            executable = client.compile_and_load(stablehlo, devices, xla_client.CompileOptions())
            times.append(time.perf_counter() - start)
        stats = executable.get_compiled_memory_stats()
        arrays = []
        with np.load(request["inputs"]) as npz:
            for i, shape in enumerate(program_shape.parameter_shapes()):
                array, dtype = npz[f"in{i}"], shape.numpy_dtype()
                arrays.append(array if array.dtype == dtype else array.view(dtype))
        arguments = [jax.device_put(array, device) for array in arrays]
        jax.block_until_ready(arguments)
        if "results" in request:
            save(executable.execute_sharded(arguments), request["results"])
        bytes_ = stats.temp_size_in_bytes + stats.output_size_in_bytes
        return (executable, arguments), {"compile_ms": min(times) * 1e3, "peak_bytes": bytes_}

    def run(executable, arguments):
        times = []
        begin = time.perf_counter()
        while len(times) < 5 or (
            time.perf_counter() - begin < SECONDS_A_ROUND and len(times) < 2000
        ):
            start = time.perf_counter()
            results = executable.execute_sharded(arguments)
            for [result] in results.disassemble_into_single_device_arrays():
                result.block_until_ready()
            times.append(time.perf_counter() - start)
            del results, result
        return {"run_ms_min": min(times) * 1e3}

    loaded = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "hlo" in request:
                loaded = None
                loaded, answer = load(request)
            else:
                answer = run(*loaded)
        except Exception as error:
            answer = {"error": " ".join(str(error).split())[:200]}
        print(json.dumps(answer), file=answers)


class Xla:
    def __init__(self, cores):
        self.cores = cores
        self.start()

    def start(self):
        cores = self.cores
        flags = os.environ.get("XLA_FLAGS", "")
        if len(cores) == 1:
            flags += " --xla_cpu_multi_thread_eigen=false"
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"XLA_FLAGS": flags.strip()},
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
            text=True,
        )

    def ask(self, **request):
        print(json.dumps(request), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if answer:
            return json.loads(answer)
        # A call that XLA does not know ends it.
        self.close()
        self.start()
        return {"error": "XLA's process ended"}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def ours(arguments, hlo, inputs, cores):
    command = [arguments.tegula, "bench", hlo, "--inputs", inputs, "--threads", str(len(cores)), "--json"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=arguments.timeout,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
    except subprocess.TimeoutExpired:
        return {"error": f"more than {arguments.timeout:.0f} s"}
    if done.returncode != 0:
        return {"error": (done.stderr.strip() or "failed").splitlines()[0][:200]}
    return json.loads(done.stdout)


def disagreement(arguments, hlo, inputs, results, threads):
    """What to say about results that are not XLA's, or nothing."""
    text = hlo.read_text()
    tolerance = next(t for pattern, t in TOLERANCES if re.search(pattern, text))
    command = [arguments.tegula, "run", hlo, "--inputs", inputs, "--check", results]
    command += ["--scale-tol", str(tolerance), "--threads", str(threads), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.timeout)
    if done.returncode == 0:
        return None
    if done.returncode != 1:
        return (done.stderr.strip() or "failed").splitlines()[0][:200]
    wrong = [o for o in json.loads(done.stdout)["outputs"] if not o["ok"]]
    # Where one has no number and the other does, there is no largest difference.
    apart = (f"{o['index']} by up to {'NaN' if o['max_abs'] is None else o['max_abs']}" for o in wrong)
    return f"results {', '.join(apart)} (more than {tolerance} of the largest)"


# A program on both sides.


def least(a, b):
    # What a target does not measure is null.
    return a if b is None else b if a is None else min(a, b)


def measure(arguments, xla, hlo, inputs, cores, results):
    peer = xla.ask(hlo=str(hlo), inputs=str(inputs), results=str(results))
    row = {"name": hlo.stem, "threads": len(cores), "us": {}, "xla": peer}
    if "error" not in peer:
        row["disagreement"] = disagreement(arguments, hlo, inputs, results, len(cores))
    for _ in range(arguments.rounds):
        start = time.monotonic()
        us = ours(arguments, hlo, inputs, cores)
        us.pop("kernels", None)
        if "error" in us:
            row["us"] = us
        else:
            row["us"] = {k: least(v, row["us"].get(k, v)) for k, v in us.items()}
        if "error" not in peer:
            run = xla.ask(run=True)
            peer |= {k: min(v, peer.get(k, v)) if k == "run_ms_min" else v for k, v in run.items()}
        if "error" in us or time.monotonic() - start > LONG_ROUND:
            break
    return row


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def table(rows, floors):
    """The table of one number of threads, as lines of Markdown."""
    head = "| program | ours ms | XLA ms | run | compile | memory |"
    rule = "|---|---:|---:|---:|---:|---:|"
    long, short, failed = [], [], []
    runs, compiles, memories = [], [], []
    for row in rows:
        us, xla = row["us"], row["xla"]
        if "error" in us or "error" in xla:
            failed.append(f"- {row['name']}: " + "; ".join(
                f"{who}: {side['error']}" for who, side in (("ours", us), ("XLA", xla)) if "error" in side
            ))
            continue
        times = [us["run_ms_min"], xla["run_ms_min"]]
        small = any(t < 10 * floor for t, floor in zip(times, floors))
        times = [max(t - floor, 0.0) for t, floor in zip(times, floors)]
        compile_ = xla["compile_ms"] / (us["read_ms"] + us["compile_ms"])
        memory = xla["peak_bytes"] / max(us["peak_bytes"], 1)
        ratio = times[1] / times[0] if times[0] > 0 else math.nan
        compiles.append(compile_)
        if memory > 0:
            memories.append(memory)
        line = f"| {row['name']} | {times[0]:.3f} | {times[1]:.3f} |"
        if small:
            short.append(f"{line} | {compile_:.1f} | {memory:.2f} |")
        else:
            runs.append(ratio)
            long.append(f"{line} {ratio:.3g} | {compile_:.1f} | {memory:.2f} |")
    lines = [
        f"Floors: ours {floors[0] * 1e3:.1f} us, XLA {floors[1] * 1e3:.1f} us.",
        "",
        head,
        rule,
        *long,
        f"| **geometric mean** ({len(runs)} run, {len(compiles)} compile) | | |"
        f" **{mean(runs):.3g}** | **{mean(compiles):.1f}** | **{mean(memories):.2f}** |",
    ]
    if short:
        lines += ["", "Under ten floors on either side:", "", head, rule, *short]
    if failed:
        lines += ["", "Not measured:", "", *failed]
    apart = [f"- {r['name']}: {r['disagreement']}" for r in rows if r.get("disagreement")]
    if apart:
        lines += ["", "Results apart:", "", *apart]
    return lines


def main():
    parser = argparse.ArgumentParser(description="Tegula beside XLA:CPU")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "examples/models")
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, os.cpu_count()}))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--tegula", default=str(ROOT / "target/release/tegula"))
    parser.add_argument("--timeout", type=float, default=120, help="seconds for a round of ours")
    parser.add_argument("--json", type=pathlib.Path, help="write what was measured to this file")
    arguments = parser.parse_args()
    programs = sorted(arguments.folder.glob("*.hlo"))
    # XLA has no form of sizes known only at run time.
    programs = [p for p in programs if not p.stem.startswith("symbolic_")]
    if arguments.only:
        programs = [p for p in programs if p.stem in arguments.only]
    everything = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        import numpy as np

        floor_hlo, floor_inputs = scratch / "floor.hlo", scratch / "floor.npz"
        results = scratch / "results.npz"
        floor_hlo.write_text(FLOOR)
        np.savez(floor_inputs, in0=np.zeros(8, np.float32))
        cores = sorted(os.sched_getaffinity(0))
        workers = {n: (Xla(cores[:n]), cores[:n]) for n in arguments.threads}
        rows = {n: [] for n in arguments.threads}
        floors = {}
        for n, (xla, bound) in workers.items():
            row = measure(arguments, xla, floor_hlo, floor_inputs, bound, results)
            floors[n] = (row["us"]["run_ms_min"], row["xla"]["run_ms_min"])
        for hlo in programs:
            inputs = inputs_file(hlo, scratch)
            for n, (xla, bound) in workers.items():
                row = measure(arguments, xla, hlo, inputs, bound, results)
                rows[n].append(row)
                everything.append(row)
                print(json.dumps(row), file=sys.stderr, flush=True)
        for xla, _ in workers.values():
            xla.close()
    for n in arguments.threads:
        print(f"\n{n} thread(s)\n")
        print("\n".join(table(rows[n], floors[n])))
    if arguments.json:
        arguments.json.write_text(json.dumps({"floors_ms": floors, "rows": everything}, indent=1))


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
