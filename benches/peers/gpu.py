"""Tegula on an NVIDIA GPU: whether results are right, then beside JAX and PyTorch.

    cargo build --release --bin tegula
    python benches/peers/gpu.py [--tegula BINARY] [FOLDER ...] [--json FILE]

One command, for a machine that has a GPU and perhaps nothing else: the binary may be
carried there. It needs libnvrtc beside the CUDA toolkit's libraries or in the folder that
TEGULA_CUDA_LIBS names (`scripts/get-nvrtc FOLDER` fetches it elsewhere, to be carried
too); libcublasLt, for products, likewise. Those that JAX and PyTorch have brought along are
found. What is missing is said, and what needs it left out: without JAX or PyTorch, or
where they find no GPU, their columns are empty; without numpy, programs whose inputs are
described and not stored get inputs of a seed.

It does three things, each of which can be left out:

1. Correctness (--no-check): every program of the folders (by default examples/models and
   tests/data/hlo) on the GPU, against stored results, or else against the interpreter. A
   wrong result makes the exit status 1.
2. Operations (--no-operations): a copy, elementwise chains, softmax, layer norm,
   reductions, transposition, products, attention, at sizes that fill a GPU. Bandwidths are of the
   bytes that have to be moved, and beside the copy measured in the same run.
3. Models (--no-models): the programs of the first folder, beside XLA on the GPU, which
   gets the same HLO text.

The rules of the times: inputs are on the device before the clock starts and results stay
there; a time is the mean of many runs that are waited for once, after some that are not
counted; rounds of all sides are interleaved, and the fastest counts, because what
disturbs a run only makes it slower. Products of f32 are in f32 on every side, not TF32: what
XLA gets says `operand_precision={highest,highest}`.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
MAX = "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }\n"
PROBE = "HloModule probe\nENTRY main { p = f32[8] parameter(0) ROOT c = f32[8] negate(p) }\n"
# Relative to the largest element of the reference, by what the program computes in.
TOLERANCES = (("bf16[", 2e-2), ("f16[", 5e-3), ("f8e", 1e-1), ("", 2e-4))


def operations(scale):
    """Name, HLO, what the peers compute, bytes that have to be moved, operations."""
    n, m = 8192 // scale, 8192 // scale
    wide = f"f32[{n},{m}]"
    side = 4096 // scale
    large = 8192 // scale
    bytes_ = 4 * n * m
    rows = f"""broadcast(r), dimensions={{0}}"""
    return [
        (
            "copy",
            f"ENTRY main {{ x = {wide} parameter(0) ROOT y = {wide} negate(x) }}",
            lambda lib, x: -x,
            [(n, m, "f32")],
            2 * bytes_,
            0,
        ),
        (
            "elementwise",
            f"""ENTRY main {{ x = {wide} parameter(0) b = f32[{m}] parameter(1)
              c = {wide} broadcast(b), dimensions={{1}} a = {wide} add(x, c)
              t = {wide} tanh(a) ROOT y = {wide} multiply(t, x) }}""",
            lambda lib, x, b: lib.tanh(x + b) * x,
            [(n, m, "f32"), (m, "f32")],
            2 * bytes_,
            0,
        ),
        (
            "softmax",
            f"""{SUM}{MAX}ENTRY main {{ x = {wide} parameter(0) i = f32[] constant(-inf)
              z = f32[] constant(0) r = f32[{n}] reduce(x, i), dimensions={{1}}, to_apply=max
              c = {wide} {rows} d = {wide} subtract(x, c) e = {wide} exponential(d)
              s = f32[{n}] reduce(e, z), dimensions={{1}}, to_apply=sum
              f = {wide} broadcast(s), dimensions={{0}} ROOT y = {wide} divide(e, f) }}""",
            lambda lib, x: lib.softmax(x),
            [(n, m, "f32")],
            2 * bytes_,
            0,
        ),
        (
            "layer norm",
            f"""{SUM}ENTRY main {{ x = {wide} parameter(0) g = f32[{m}] parameter(1) b = f32[{m}] parameter(2)
              z = f32[] constant(0) l = f32[] constant({m}) ls = f32[{n}] broadcast(l), dimensions={{}}
              s = f32[{n}] reduce(x, z), dimensions={{1}}, to_apply=sum r = f32[{n}] divide(s, ls)
              c = {wide} {rows} d = {wide} subtract(x, c) q = {wide} multiply(d, d)
              t = f32[{n}] reduce(q, z), dimensions={{1}}, to_apply=sum v = f32[{n}] divide(t, ls)
              e = f32[] constant(1e-5) es = f32[{n}] broadcast(e), dimensions={{}}
              a = f32[{n}] add(v, es) w = f32[{n}] rsqrt(a) ws = {wide} broadcast(w), dimensions={{0}}
              y = {wide} multiply(d, ws) gs = {wide} broadcast(g), dimensions={{1}} h = {wide} multiply(y, gs)
              bs = {wide} broadcast(b), dimensions={{1}} ROOT o = {wide} add(h, bs) }}""",
            lambda lib, x, g, b: lib.layer_norm(x, g, b),
            [(n, m, "f32"), (m, "f32"), (m, "f32")],
            2 * bytes_,
            0,
        ),
        (
            "sum of rows",
            f"""{SUM}ENTRY main {{ x = {wide} parameter(0) z = f32[] constant(0)
              ROOT r = f32[{n}] reduce(x, z), dimensions={{1}}, to_apply=sum }}""",
            lambda lib, x: x.sum(1),
            [(n, m, "f32")],
            bytes_,
            0,
        ),
        (
            "sum of columns",
            f"""{SUM}ENTRY main {{ x = {wide} parameter(0) z = f32[] constant(0)
              ROOT r = f32[{m}] reduce(x, z), dimensions={{0}}, to_apply=sum }}""",
            lambda lib, x: x.sum(0),
            [(n, m, "f32")],
            bytes_,
            0,
        ),
        (
            "sum of all",
            f"""{SUM}ENTRY main {{ x = {wide} parameter(0) z = f32[] constant(0)
              ROOT r = f32[] reduce(x, z), dimensions={{0,1}}, to_apply=sum }}""",
            lambda lib, x: x.sum(),
            [(n, m, "f32")],
            bytes_,
            0,
        ),
        (
            "transposition",
            f"""ENTRY main {{ x = {wide} parameter(0)
              ROOT t = f32[{m},{n}] transpose(x), dimensions={{1,0}} }}""",
            lambda lib, x: lib.transposed(x),
            [(n, m, "f32")],
            2 * bytes_,
            0,
        ),
        (
            "product f32",
            f"""ENTRY main {{ x = f32[{side},{side}] parameter(0) y = f32[{side},{side}] parameter(1)
              ROOT z = f32[{side},{side}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}""",
            lambda lib, x, y: x @ y,
            [(side, side, "f32")] * 2,
            0,
            2 * side**3,
        ),
        (
            "product bf16",
            f"""ENTRY main {{ x = bf16[{large},{large}] parameter(0) y = bf16[{large},{large}] parameter(1)
              ROOT z = bf16[{large},{large}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}""",
            lambda lib, x, y: x @ y,
            [(large, large, "bf16")] * 2,
            0,
            2 * large**3,
        ),
        *(attention(max(heads // scale, 1), 2048, size) for heads, size in ((64, 64), (32, 128))),
    ]


def attention(heads, rows, size):
    """Attention of bf16 without a mask, as the operations above."""
    all_, scores, stat = (f"[{heads},{rows},{n}]" for n in (size, rows, ""))
    scores, stat = f"f32{scores}", f"f32[{heads},{rows}]"
    batches = "lhs_batch_dims={0}, rhs_batch_dims={0}"
    return (
        f"attention bf16, {size} wide",
        f"""{SUM}{MAX}ENTRY main {{ q = bf16{all_} parameter(0) k = bf16{all_} parameter(1)
          v = bf16{all_} parameter(2)
          s = {scores} dot(q, k), {batches}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
          c = f32[] constant({size**-0.5}) cs = {scores} broadcast(c), dimensions={{}}
          x = {scores} multiply(s, cs) i = f32[] constant(-inf) z = f32[] constant(0)
          r = {stat} reduce(x, i), dimensions={{2}}, to_apply=max
          b = {scores} broadcast(r), dimensions={{0,1}} d = {scores} subtract(x, b)
          e = {scores} exponential(d) t = {stat} reduce(e, z), dimensions={{2}}, to_apply=sum
          f = {scores} broadcast(t), dimensions={{0,1}} p = {scores} divide(e, f)
          h = bf16[{heads},{rows},{rows}] convert(p)
          ROOT o = bf16{all_} dot(h, v), {batches}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}} }}""",
        lambda lib, q, k, v: lib.attention(q, k, v),
        [(heads, rows, size, "bf16")] * 3,
        0,
        4 * heads * rows * rows * size,
    )


# Ours.


def ours(arguments, *words):
    """Runs the binary; its JSON, or what it says is wrong."""
    command = [arguments.tegula, "--json", *map(str, words)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"more than {arguments.timeout:.0f} s"}
    except OSError as error:
        return {"error": str(error)}
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {}
    if done.returncode != 0:
        text = answer.get("message") or done.stderr.strip() or done.stdout.strip() or "failed"
        return {"error": str(text).splitlines()[0][:300]}
    return answer


def probe(arguments, scratch):
    """Ends with a clear message if the binary finds no GPU."""
    file = scratch / "probe.hlo"
    file.write_text(PROBE)
    answer = ours(arguments, "run", file, "--target", arguments.target)
    if "error" in answer:
        sys.exit(f"Tegula cannot run on `{arguments.target}`: {answer['error']}")


# 1. Correctness.


def stored(hlo, scratch):
    """The options that give a program its inputs, and the file of its results."""
    import zipfile

    npz, description = hlo.with_suffix(".npz"), hlo.with_suffix(".json")
    names = zipfile.ZipFile(npz).namelist() if npz.exists() else []
    reference = npz if any(name.startswith("out") for name in names) else None
    if any(name.startswith("in") for name in names):
        return ["--inputs", npz], reference
    if description.exists():
        try:
            sys.path.insert(0, str(ROOT / "benches/peers"))
            from run import inputs_file

            return ["--inputs", inputs_file(hlo, scratch)], reference
        except ImportError:
            pass
    return ["--seed", 1], None


def check_program(arguments, hlo):
    """A program against its reference: what came of it, and what is wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        inputs, reference = stored(hlo, scratch)
        symbolic = hlo.stem.startswith("symbolic_") and inputs[0] != "--inputs"
        dims = ["--dim", "p0_d0=8"] if symbolic else []
        if reference is None:
            reference = scratch / "reference.npz"
            answer = ours(arguments, "run", hlo, "--target", "interp", *dims, *inputs, "--outputs", reference)
            if "error" in answer:
                return "not run", f"no reference: {answer['error']}"
        text = hlo.read_text()
        tolerance = next(t for kind, t in TOLERANCES if kind in text)
        answer = ours(
            arguments, "run", hlo, "--target", arguments.target, *dims, *inputs,
            "--check", reference, "--scale-tol", tolerance,
        )
        return ("wrong", answer["error"]) if "error" in answer else ("right", None)


def check(arguments):
    """Every program against its reference; whether all are right."""
    programs = [hlo for folder in arguments.folders for hlo in sorted(folder.glob("*.hlo"))]
    programs = [hlo for hlo in programs if not arguments.only or hlo.stem in arguments.only]
    counts = {"right": 0, "wrong": 0, "not run": 0}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = pool.map(lambda hlo: check_program(arguments, hlo), programs)
        for hlo, (outcome, what) in zip(programs, outcomes):
            counts[outcome] += 1
            if what:
                print(f"- {hlo.stem}: {what}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return counts["wrong"] == 0


# 2. Operations.


class Jax:
    name = "JAX"

    def __init__(self):
        # Room for the other sides on the same GPU.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax

        self.jax, self.numpy = jax, jax.numpy
        self.device = jax.devices("gpu")[0]
        jax.config.update("jax_default_matmul_precision", "highest")
        self.tanh, self.softmax = jax.numpy.tanh, lambda x: jax.nn.softmax(x, axis=-1)
        # A copy, not a view.
        self.transposed = lambda x: x.T + 0

    def layer_norm(self, x, g, b):
        d = x - x.mean(1, keepdims=True)
        return d * self.jax.lax.rsqrt((d * d).mean(1, keepdims=True) + 1e-5) * g + b

    def attention(self, q, k, v):
        """As the formula says: what XLA makes of it."""
        product = lambda text, *arrays: self.numpy.einsum(text, *arrays, preferred_element_type=self.numpy.float32)
        scores = product("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
        return product("hqk,hkd->hqd", self.softmax(scores).astype(q.dtype), v).astype(q.dtype)

    def array(self, *spec):
        *shape, kind = spec
        kind = {"f32": self.numpy.float32, "bf16": self.numpy.bfloat16}[kind]
        values = self.jax.random.normal(self.jax.random.key(len(shape)), shape, self.numpy.float32)
        return self.jax.device_put(values.astype(kind), self.device)

    def compiled(self, function):
        compiled = self.jax.jit(lambda *arrays: function(self, *arrays))
        return compiled, self.jax.block_until_ready


class Torch:
    name = "PyTorch"

    def __init__(self):
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch finds no GPU")
        self.torch = torch
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self.tanh, self.softmax = torch.tanh, lambda x: torch.softmax(x, 1)
        self.transposed = lambda x: x.t().contiguous()
        self.layer_norm = lambda x, g, b: torch.nn.functional.layer_norm(x, g.shape, g, b)
        self.attention = lambda *arrays: torch.nn.functional.scaled_dot_product_attention(
            *(x[None] for x in arrays)
        )

    def array(self, *spec):
        *shape, kind = spec
        kind = {"f32": self.torch.float32, "bf16": self.torch.bfloat16}[kind]
        return self.torch.randn(*shape, device="cuda").to(kind)

    def compiled(self, function):
        compiled = self.torch.compile(lambda *arrays: function(self, *arrays))
        return compiled, lambda _: self.torch.cuda.synchronize()


def cuda_libraries():
    """Folders of Python packages that have the libraries which the binary looks for."""
    roots = [pathlib.Path(path) / "nvidia" for path in sys.path if path]
    folders = [folder for root in roots if root.is_dir() for folder in sorted(root.glob("*/lib"))]
    return [str(f) for f in folders if any(f.glob("libcublasLt.so*")) or any(f.glob("libnvrtc.so*"))]


def peers():
    """The peers that are there and find a GPU."""
    found = []
    for peer in (Jax, Torch):
        try:
            found.append(peer())
        except Exception as error:  # A peer that is broken is one that is missing.
            reason = " ".join(str(error).split())[:200]
            print(f"{peer.name} is left out: {reason}", file=sys.stderr)
    return found


def timed(compiled, wait, arrays, seconds):
    """Milliseconds of a run: the mean of as many as fit, waited for once."""
    for _ in range(3):
        result = compiled(*arrays)
    wait(result)
    start = time.perf_counter()
    wait(compiled(*arrays))
    runs = max(5, min(2000, int(seconds / max(time.perf_counter() - start, 1e-6))))
    start = time.perf_counter()
    for _ in range(runs):
        result = compiled(*arrays)
    wait(result)
    return (time.perf_counter() - start) / runs * 1e3


def measure_operations(arguments, scratch, sides):
    """A row for each operation: milliseconds by side."""
    rows = []
    for name, text, function, specs, bytes_, count in operations(arguments.scale):
        hlo = scratch / "operation.hlo"
        hlo.write_text(f"HloModule operation\n{text}\n")
        row = {"name": name, "bytes": bytes_, "operations": count, "ms": {}, "errors": {}}
        ready = {}
        for side in sides:
            try:
                arrays = [side.array(*spec) for spec in specs]
                ready[side.name] = (*side.compiled(function), arrays)
            except Exception as error:
                row["errors"][side.name] = " ".join(str(error).split())[:200]
        for _ in range(arguments.rounds):
            answer = ours(arguments, "bench", hlo, "--target", arguments.target, "--seconds", arguments.seconds)
            if "error" in answer:
                row["errors"]["Tegula"] = answer["error"]
            elif answer.get("device_ms"):
                row["ms"]["Tegula"] = min(answer["device_ms"], row["ms"].get("Tegula", math.inf))
            for side, what in ready.items():
                try:
                    row["ms"][side] = min(timed(*what, arguments.seconds), row["ms"].get(side, math.inf))
                except Exception as error:
                    row["errors"][side] = " ".join(str(error).split())[:200]
        del ready
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
    return rows


def table_of_operations(rows, sides):
    names = ["Tegula", *(side.name for side in sides)]
    lines = ["| operation | " + " | ".join(f"{n} ms" for n in names) + " | Tegula | of the copy |"]
    lines.append("|---|" + "---:|" * (len(names) + 2))
    copy = next((r["bytes"] / r["ms"]["Tegula"] for r in rows if r["name"] == "copy" and "Tegula" in r["ms"]), None)
    for row in rows:
        times = " | ".join(f"{row['ms'][n]:.4f}" if n in row["ms"] else "" for n in names)
        own, share = row["ms"].get("Tegula"), ""
        rate = ""
        if own and row["bytes"]:
            rate = f"{row['bytes'] / own / 1e9:.2f} TB/s"
            share = f"{100 * row['bytes'] / own / copy:.0f} %" if copy else ""
        elif own:
            rate = f"{row['operations'] / own / 1e9:.1f} TFLOP/s"
        lines.append(f"| {row['name']} | {times} | {rate} | {share} |")
    errors = [f"- {r['name']}, {who}: {what}" for r in rows for who, what in r["errors"].items()]
    return lines + (["", *errors] if errors else [])


# 3. Models.


# A product with its attributes, and the same in the precision of its types.
PRODUCT = re.compile(r" (?:dot|convolution)\([^)]*\)(?:, \w+=(?:\{[^{}]*\}|[^\s,{}]+))*")
HIGHEST = r"\g<0>, operand_precision={highest,highest}"


def xla(hlo, inputs):
    """A program on XLA's GPU backend: what runs it, what waits, its arguments."""
    import jax
    import numpy as np
    from jax._src.lib import _jax, xla_client

    device = jax.devices("gpu")[0]
    module = xla_client.hlo.hlo_module_from_text(PRODUCT.sub(HIGHEST, hlo.read_text()))
    proto = module.as_serialized_hlo_module_proto()
    stablehlo = xla_client._xla.mlir.hlo_to_stablehlo(proto)
    devices = _jax.DeviceList((device,))
    executable = device.client.compile_and_load(stablehlo, devices, xla_client.CompileOptions())
    shapes = xla_client.XlaComputation(proto).program_shape().parameter_shapes()
    arguments = []
    with np.load(inputs) as npz:
        for i, shape in enumerate(shapes):
            array, dtype = npz[f"in{i}"], shape.numpy_dtype()
            arguments.append(jax.device_put(array if array.dtype == dtype else array.view(dtype), device))
    jax.block_until_ready(arguments)

    def wait(results):
        for [result] in results.disassemble_into_single_device_arrays():
            result.block_until_ready()

    return lambda *arrays: executable.execute_sharded(list(arrays)), wait, arguments


def measure_models(arguments, scratch, with_xla):
    lines = ["| program | Tegula ms | XLA ms | XLA / Tegula |", "|---|---:|---:|---:|"]
    ratios, rows, programs = [], [], []
    for hlo in sorted(arguments.folders[0].glob("*.hlo")):
        if hlo.stem.startswith("symbolic_") or (arguments.only and hlo.stem not in arguments.only):
            continue
        own = scratch / hlo.stem
        own.mkdir()
        programs.append((hlo, stored(hlo, own)[0]))
    # XLA tries its kernels one at a time, whoever compiles beside it.
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        compiled = [
            pool.submit(xla, hlo, inputs[1]) if with_xla and inputs[0] == "--inputs" else None
            for hlo, inputs in programs
        ]
    for (hlo, inputs), future in zip(programs, compiled):
        row = {"name": hlo.stem}
        peer = None
        if future:
            try:
                peer = future.result()
            except Exception as error:
                row["xla_error"] = " ".join(str(error).split())[:200]
        for _ in range(arguments.rounds):
            answer = ours(arguments, "bench", hlo, "--target", arguments.target, "--seconds", arguments.seconds, *inputs)
            if "error" in answer:
                row["error"] = answer["error"]
            elif answer.get("device_ms"):
                row["ms"] = min(answer["device_ms"], row.get("ms", math.inf))
            if peer:
                row["xla_ms"] = min(timed(*peer, arguments.seconds), row.get("xla_ms", math.inf))
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
        own, other = row.get("ms"), row.get("xla_ms")
        ratio = other / own if own and other else None
        ratios += [ratio] if ratio else []
        cells = [f"{v:.4f}" if v else "" for v in (own, other)] + [f"{ratio:.3g}" if ratio else ""]
        lines.append(f"| {hlo.stem} | " + " | ".join(cells) + " |")
        lines += [f"| | {row[e]} | | |" for e in ("error", "xla_error") if e in row]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines.append(f"| **geometric mean** ({len(ratios)}) | | | **{mean:.3g}** |")
    return lines, rows


def main():
    parser = argparse.ArgumentParser(description="Tegula on a GPU: correctness, then beside JAX and PyTorch")
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--tegula", default=str(ROOT / "target/release/tegula"))
    parser.add_argument("--target", default="cuda", help="cuda-sim tries the script itself, without a GPU")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="for which a program is run again in each round")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1), help="programs that are checked, or compiled by XLA, at a time")
    parser.add_argument("--scale", type=int, default=1, help="divides the sizes of operations")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one start of the binary")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--no-operations", action="store_true")
    parser.add_argument("--no-models", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, help="write what was measured to this file")
    arguments = parser.parse_args()
    if not os.access(arguments.tegula, os.X_OK):
        sys.exit(f"there is no program {arguments.tegula}: build it with `cargo build --release --bin tegula`, or name it with --tegula")
    named = os.environ.get("TEGULA_CUDA_LIBS")
    libraries = ([named] if named else []) + cuda_libraries()
    if libraries:
        os.environ["TEGULA_CUDA_LIBS"] = os.pathsep.join(libraries)
        print(f"libraries are looked for in {os.environ['TEGULA_CUDA_LIBS']}, then the system's places\n")
    known = [ROOT / "examples/models", ROOT / "tests/data/hlo"]
    arguments.folders = arguments.folders or [folder for folder in known if folder.is_dir()]
    if not arguments.folders and not (arguments.no_check and arguments.no_models):
        sys.exit("there are no programs: name a folder with *.hlo files")
    right, everything = True, {}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        probe(arguments, scratch)
        if not arguments.no_check:
            print("## Results\n")
            right = check(arguments)
        sides = [] if arguments.no_operations and arguments.no_models else peers()
        if not arguments.no_operations:
            rows = everything["operations"] = measure_operations(arguments, scratch, sides)
            print("\n## Operations\n")
            print("\n".join(table_of_operations(rows, sides)))
        if not arguments.no_models:
            with_xla = any(isinstance(side, Jax) for side in sides)
            lines, everything["models"] = measure_models(arguments, scratch, with_xla)
            print("\n## Models\n")
            print("\n".join(lines))
    if arguments.json:
        arguments.json.write_text(json.dumps(everything, indent=1))
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
