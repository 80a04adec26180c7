"""What XLA:CPU gives for a dot and a convolution of every combination of element types.

    python scripts/product_types.py FOLDER > tests/data/product_types.txt

needs `jax[cpu]`. FOLDER keeps what is done, so that a run that was stopped goes on. Each line of
the table is of two operands' types, then the results of the types that the first line lists, in
order: of the products of VALUES. A word is the dot's result, followed by `|` and the convolution's
where that is another. `!CAUSE` stands where XLA:CPU takes the program not at all; causes are
listed at the end. tests/tests/all/product_types.rs holds every target against it.

Arrays of less than a byte an element are inputs and results as wider numbers, converted in the
program: the element size in their layouts makes XLA:CPU refuse its own conversions.

A program that stops XLA with a failed check takes the process with it, so that another process
asks. A row is one program, without the results that failed in the row before, which are programs of
their own.
"""

import json
import pathlib
import re
import subprocess
import sys
import threading

INTEGERS = ["s1", "s2", "s4", "s8", "s16", "s32", "s64", "u1", "u2", "u4", "u8", "u16", "u32", "u64"]
FLOATS = {
    "f4e2m1fn": "float4_e2m1fn", "f6e2m3fn": "float6_e2m3fn", "f6e3m2fn": "float6_e3m2fn",
    "f8e3m4": "float8_e3m4", "f8e4m3": "float8_e4m3", "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3fnuz": "float8_e4m3fnuz", "f8e4m3b11fnuz": "float8_e4m3b11fnuz",
    "f8e5m2": "float8_e5m2", "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip
TYPES = ["pred", *INTEGERS, *FLOATS, "c64", "c128"]
OPERATIONS = ("dot", "convolution")
# Types that are not asked for, and why.
ONE_BIT = "StableHLO, in which XLA takes programs, has no integers of one bit"
SIX_BITS = "XLA:CPU has no code for floats of six bits: failed to translate module to LLVM IR, or no end"
NOT_ASKED = {"s1": ONE_BIT, "u1": ONE_BIT, "f6e2m3fn": SIX_BITS, "f6e3m2fn": SIX_BITS}
SECONDS = 60


def carrier(name):
    """The type in which numbers of another are inputs and results."""
    if name in INTEGERS and int(name[1:]) < 8:
        return name[0] + "8"
    return "f32" if name.startswith(("f4e", "f6e")) else name


def dtype(name):
    import ml_dtypes
    import numpy as np

    if name in INTEGERS:
        name = ("int" if name[0] == "s" else "uint") + name[1:]
    name = {"pred": "bool", "c64": "complex64", "c128": "complex128", **FLOATS}.get(name, name)
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def values(name, side):
    """Small fractions for floats, the largest numbers for integers, whose sums wrap."""
    import numpy as np

    fractions = np.array([[0.5, 0.5, 1.5, 2], [3, 2, -1, -0.25]][side])
    if name == "pred":
        return np.array([[1, 0, 1, 1], [1, 1, 1, 0]][side], bool)
    if name in INTEGERS:
        bits, signed = int(name[1:]), name[0] == "s"
        most = 2 ** (bits - signed) - 1
        least = -most if signed else 1
        wrap = lambda x: (x % 2**bits) - (2**bits if signed and x % 2**bits >= 2 ** (bits - 1) else 0)
        row = [wrap(x) for x in [[most, most, least, 3], [most, 5, 7, 2]][side]]
        return np.array(row, np.int64 if signed else np.uint64).astype(dtype(name))
    if name[0] == "c":
        return (fractions + 1j * np.array([[1, 2, -0.5, 3], [0.5, 1, 1, -1]][side])).astype(dtype(name))
    # Of f8e8m0fnu: it has no negative numbers, and what a NaN becomes is not the question.
    return (abs(fractions) if name == "f8e8m0fnu" else fractions).astype(dtype(name))


def text(operation, lhs, rhs, types):
    size = "" if operation == "dot" else "1,1,1"
    lines = []
    for name, ty in (("a", lhs), ("b", rhs)):
        lines.append(f"{name}_in = {carrier(ty)}[4] parameter({'ab'.index(name)})")
        lines.append(f"{name} = {ty}[4] convert({name}_in)")
    if operation == "convolution":
        lines += [f"x = {lhs}[1,4,1] reshape(a)", f"k = {rhs}[4,1,1] reshape(b)"]
    for i, ty in enumerate(types):
        lines.append(
            f"d{i} = {ty}[] dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
            if operation == "dot"
            else f"d{i} = {ty}[1,1,1] convolution(x, k), window={{size=4}}, dim_labels=b0f_0io->b0f"
        )
        lines.append(f"r{i} = {carrier(ty)}[{size}] convert(d{i})")
    shapes = ", ".join(f"{carrier(ty)}[{size}]" for ty in types)
    names = ", ".join(f"r{i}" for i in range(len(types)))
    lines.append(f"ROOT t = ({shapes}) tuple({names})")
    return "HloModule m\nENTRY e {\n " + "\n ".join(lines) + "\n}"


def spelled(array):
    import numpy as np

    array = np.asarray(array).reshape(())
    if array.dtype.kind == "c":
        return f"{float(array.real)!r},{float(array.imag)!r}"
    if array.dtype.kind in "biu" or "int" in array.dtype.name:
        return str(int(array))
    return repr(float(array))


def run(operation, lhs, rhs, types):
    import jax
    from jax._src.lib import _jax, xla_client

    jax.config.update("jax_enable_x64", True)
    device = jax.devices("cpu")[0]
    module = xla_client.hlo.hlo_module_from_text(text(operation, lhs, rhs, types))
    stablehlo = xla_client._xla.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    executable = device.client.compile_and_load(
        stablehlo, _jax.DeviceList((device,)), xla_client.CompileOptions()
    )
    inputs = [values(ty, side).astype(dtype(carrier(ty))) for side, ty in enumerate((lhs, rhs))]
    arguments = [jax.device_put(x, device) for x in inputs]
    results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
    return [spelled(result) for [result] in results]


def worker():
    """A line of JSON for each question on a line."""
    for line in sys.stdin:
        try:
            answer = {"values": run(*json.loads(line))}
        except Exception as error:
            answer = {"error": " ".join(str(error).split())[:300]}
        print(json.dumps(answer), flush=True)


class Asker:
    """A process that answers, started again when it stops."""

    def __init__(self):
        self.process = None

    def ask(self, *question):
        if self.process is None:
            command = [sys.executable, __file__, "--worker"]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            self.process = subprocess.Popen(command, text=True, **pipes)
        try:
            print(json.dumps(question), file=self.process.stdin, flush=True)
            late = threading.Timer(SECONDS, self.process.kill)
            late.start()
            line = self.process.stdout.readline()
            late.cancel()
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        _, errors = self.process.communicate()
        self.process = None
        lines = [l for l in errors.splitlines() if "Check failed" in l or "LLVM ERROR" in l or "F0" in l[:3]]
        return {"error": f"stops: {(lines or errors.splitlines() or ['?'])[0][:300]}"}


def cause(error):
    """A failure without the names and places of one program."""
    error = re.sub(r"^stops: .*?\] ", "stops: ", error)
    error = re.sub(r"%\S+|\bd\d+\b|\bloc\S*", "_", error)
    types = "|".join(sorted(TYPES, key=len, reverse=True))
    error = re.sub(rf"\b({types})\b", "T", error, flags=re.IGNORECASE)
    return re.sub(r"\d+", "N", error)[:160]


def row(asker, operation, lhs, rhs, likely):
    """Results by type; those that are `likely` to fail are asked for one by one."""
    words = {ty: "!" + why for ty, why in NOT_ASKED.items()}
    if why := words.get(lhs) or words.get(rhs):
        return dict.fromkeys(TYPES, why)

    def ask(types):
        answer = asker.ask(operation, lhs, rhs, types)
        if "values" in answer:
            words.update(zip(types, answer["values"]))
        elif len(types) == 1:
            words[types[0]] = "!" + cause(answer["error"])
        else:
            half = len(types) // 2
            ask(types[:half])
            ask(types[half:])

    rest = [ty for ty in TYPES if ty not in words]
    if together := [ty for ty in rest if ty not in likely]:
        ask(together)
    for ty in rest:
        if ty in likely:
            ask([ty])
    return words


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    done_file = folder / "rows.jsonl"
    done = {}
    if done_file.exists():
        done = {tuple(r["of"]): r["words"] for r in map(json.loads, done_file.read_text().splitlines())}
    asker, likely = Asker(), {}
    with done_file.open("a") as file:
        for lhs in TYPES:
            for rhs in TYPES:
                for operation in OPERATIONS:
                    of = (operation, lhs, rhs)
                    if of not in done:
                        words = row(asker, *of, likely.get(operation, set()))
                        likely[operation] = {ty for ty in TYPES if words[ty][0] == "!"}
                        done[of] = [words[ty] for ty in TYPES]
                        print(json.dumps({"of": of, "words": done[of]}), file=file, flush=True)
            print(lhs, file=sys.stderr)
    causes = {}
    number = lambda word: f"!{causes.setdefault(word[1:], len(causes))}" if word[0] == "!" else word
    print("#", *TYPES)
    for lhs in TYPES:
        for rhs in TYPES:
            rows = [map(number, done[operation, lhs, rhs]) for operation in OPERATIONS]
            print(lhs, rhs, *(d if d == c else f"{d}|{c}" for d, c in zip(*rows)))
    for about, index in causes.items():
        print(f"# !{index} {about}")


if sys.argv[1] == "--worker":
    worker()
else:
    main(pathlib.Path(sys.argv[1]))
