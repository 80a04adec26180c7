"""Matrix products of Tegula beside those of oneDNN and XLA:CPU, in one run.

    cargo build --release --bin tegula
    pip install onednn-cpu-gomp jax
    python benches/peers/products.py [--threads 1 2] [--types f32 bf16 s8] [--sizes 512x512x512 ...]

A size is rows x depth x columns. Both operands and the result are row-major and nothing is packed
beforehand, as PyTorch calls oneDNN for tensors that it has just computed. `bf16` has results of
bf16, `s8` of s32. The rules are those of run.py; oneDNN is called through its C interface from
Python, one primitive that is made before the clock starts, and no floor is subtracted. All get the
same random numbers: with zeros, a Xeon with AMX is up to 1.3 times as fast.
"""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from run import ROOT, SECONDS_A_ROUND, Xla, ours

# HLO's type, oneDNN's type (dnnl_data_type_t), bytes of an element; the same of the result.
TYPES = {
    "f32": (("f32", 3, 4), ("f32", 3, 4)),
    "bf16": (("bf16", 2, 2), ("bf16", 2, 2)),
    "s8": (("s8", 5, 1), ("s32", 4, 4)),
}
SIZES = ["256x256x256", "512x512x512", "1024x1024x1024", "64x768x3072", "16x1024x1024", "128x3072x768"]
PROGRAM = """HloModule product
ENTRY main {{
  a = {operand}[{m},{k}] parameter(0)
  b = {operand}[{k},{n}] parameter(1)
  ROOT c = {result}[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


# oneDNN, in a process of its own: the number of threads is fixed when it starts.


def checked(status):
    if status != 0:
        raise RuntimeError(f"oneDNN returned status {status}")


class Product:
    """A product as a primitive of oneDNN with plain layouts. Constants are those of dnnl_types.h."""

    CPU, ROW_MAJOR, DEFAULT_FLAGS = 1, 3, 1
    SOURCE, WEIGHTS, DESTINATION = 1, 33, 17
    IMPLEMENTATION_NAME = 8

    def __init__(self, library, operand, result, operands):
        import numpy as np

        self.library = library
        pointer = ctypes.c_void_p
        engine, description, self.primitive, self.stream = (pointer() for _ in range(4))
        checked(library.dnnl_engine_create(ctypes.byref(engine), self.CPU, ctypes.c_size_t(0)))
        checked(library.dnnl_stream_create(ctypes.byref(self.stream), engine, self.DEFAULT_FLAGS))
        (m, k), (_, n) = (array.shape for array in operands)
        layouts, memories, self.arrays = [], [], []
        for rows, columns, (_, kind, width) in [(m, k, operand), (k, n, operand), (m, n, result)]:
            layout, memory = pointer(), pointer()
            dims = (ctypes.c_int64 * 12)(rows, columns)
            checked(
                library.dnnl_memory_desc_create_with_tag(
                    ctypes.byref(layout), 2, dims, kind, self.ROW_MAJOR
                )
            )
            array = np.zeros(rows * columns * width + 64, np.uint8)
            array = array[-array.ctypes.data % 64 :][: rows * columns * width]
            if len(self.arrays) < 2:
                array[:] = operands[len(self.arrays)].reshape(-1).view(np.uint8)
            self.arrays.append(array)
            checked(
                library.dnnl_memory_create(
                    ctypes.byref(memory), layout, engine, pointer(array.ctypes.data)
                )
            )
            layouts.append(layout)
            memories.append(memory)
        source, weights, destination = layouts
        checked(
            library.dnnl_matmul_primitive_desc_create(
                ctypes.byref(description), engine, source, weights, None, destination, None
            )
        )
        name = ctypes.c_char_p()
        checked(
            library.dnnl_primitive_desc_query(
                description, self.IMPLEMENTATION_NAME, 0, ctypes.byref(name)
            )
        )
        self.name = name.value.decode()
        checked(library.dnnl_primitive_create(ctypes.byref(self.primitive), description))

        class Argument(ctypes.Structure):
            _fields_ = [("place", ctypes.c_int), ("memory", pointer)]

        places = (self.SOURCE, self.WEIGHTS, self.DESTINATION)
        self.arguments = (Argument * 3)(*zip(places, memories))

    def run(self):
        self.library.dnnl_primitive_execute(self.primitive, self.stream, 3, self.arguments)
        self.library.dnnl_stream_wait(self.stream)

    def is_right(self, kind, operands):
        """Whether the result is near that of f64."""
        import numpy as np

        types = {name: numpy_type(name) for name in ("f32", "bf16", "s8", "s32")}
        left, right = (array.view(types[kind]).astype(np.float64) for array in operands)
        expected = left @ right
        result = self.arrays[2].view(types[TYPES[kind][1][0]]).astype(np.float64)
        scale = np.abs(expected).max()
        return bool(np.abs(result.reshape(expected.shape) - expected).max() <= 0.01 * scale)


def numpy_type(name):
    import ml_dtypes
    import numpy as np

    return {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "s8": np.int8, "s32": np.int32}[name]


def serve(path):
    import numpy as np

    library = ctypes.CDLL(path)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    product = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "type" in request:
                with np.load(request["inputs"]) as npz:
                    operands = [npz["in0"], npz["in1"]]
                product = Product(library, *TYPES[request["type"]], operands)
                product.run()
                right = product.is_right(request["type"], operands)
                answer = {"implementation": product.name, "right": right}
            else:
                times, begin = [], time.perf_counter()
                while time.perf_counter() - begin < SECONDS_A_ROUND:
                    start = time.perf_counter()
                    product.run()
                    times.append(time.perf_counter() - start)
                answer = {"run_ms_min": min(times) * 1e3}
        except Exception as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), file=answers)


class OneDnn(Xla):
    """The process of oneDNN, asked as XLA's is."""

    def __init__(self, library, cores):
        self.library = library
        super().__init__(cores)

    def start(self):
        cores = self.cores
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", self.library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": str(len(cores)), "OMP_PROC_BIND": "true"},
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
            text=True,
        )


def measure(arguments, kind, size, scratch, cores, xla, onednn):
    import ml_dtypes
    import numpy as np

    m, k, n = size
    (operand, _, _), (result, _, _) = TYPES[kind]
    hlo, inputs = scratch / "product.hlo", scratch / "product.npz"
    hlo.write_text(PROGRAM.format(operand=operand, result=result, m=m, k=k, n=n))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape, np.float32) for shape in ((m, k), (k, n))]
    if kind == "s8":
        arrays = [(array * 40).clip(-128, 127).astype(np.int8) for array in arrays]
    if kind == "bf16":
        arrays = [array.astype(ml_dtypes.bfloat16).view(np.uint16) for array in arrays]
    np.savez(inputs, in0=arrays[0], in1=arrays[1])
    peers = {
        "xla": (xla, xla.ask(hlo=str(hlo), inputs=str(inputs))),
        "onednn": (onednn, onednn.ask(type=kind, inputs=str(inputs))),
    }
    row = {"type": kind, "size": size, "threads": len(cores), "ours": []}
    row |= {name: [] for name in peers}
    row["implementation"] = peers["onednn"][1].get("implementation")
    for name, (_, answer) in peers.items():
        if "error" in answer or not answer.get("right", True):
            print(f"{kind} {size}: {name}: {answer}", file=sys.stderr)
    for _ in range(arguments.rounds):
        for name, (process, loaded) in peers.items():
            if "error" not in loaded:
                row[name].append(process.ask(run=True)["run_ms_min"])
        answer = ours(arguments, hlo, inputs, cores)
        if "error" in answer:
            print(f"{kind} {size}: ours: {answer}", file=sys.stderr)
            break
        row["ours"].append(answer["run_ms_min"])
    return row


def table(rows):
    lines = [
        "| product | ours ms | Gop/s | XLA / ours | oneDNN / ours | oneDNN's implementation |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        m, k, n = row["size"]
        least = {name: min(row[name], default=float("nan")) for name in ("ours", "xla", "onednn")}
        time_ = least["ours"]
        lines.append(
            f"| {row['type']} {m}x{k}x{n} | {time_:.4g} | {2e-6 * m * k * n / time_:.0f} |"
            f" {least['xla'] / time_:.2f} | {least['onednn'] / time_:.2f} | {row['implementation']} |"
        )
    return lines


def main():
    parser = argparse.ArgumentParser(description="products of Tegula beside those of oneDNN and XLA:CPU")
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, os.cpu_count()}))
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="ROWSxDEPTHxCOLUMNS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tegula", default=str(ROOT / "target/release/tegula"))
    parser.add_argument("--timeout", type=float, default=120, help="seconds for a round of ours")
    parser.add_argument(
        "--library",
        default=str(pathlib.Path(sys.prefix) / "lib/libdnnl.so.3"),
        help="oneDNN's library (where onednn-cpu-gomp puts it)",
    )
    parser.add_argument("--json", type=pathlib.Path, help="write what was measured to this file")
    arguments = parser.parse_args()
    if not pathlib.Path(arguments.library).exists():
        parser.error(f"{arguments.library} does not exist: pip install onednn-cpu-gomp, or --library PATH")
    sizes = [tuple(map(int, size.split("x"))) for size in arguments.sizes]
    cores = sorted(os.sched_getaffinity(0))
    everything = []
    with tempfile.TemporaryDirectory() as scratch:
        for threads in arguments.threads:
            bound = cores[:threads]
            xla, onednn = Xla(bound), OneDnn(arguments.library, bound)
            rows = []
            for kind in arguments.types:
                for size in sizes:
                    rows.append(measure(arguments, kind, size, pathlib.Path(scratch), bound, xla, onednn))
                    print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            xla.close()
            onednn.close()
            print(f"\n{threads} thread(s)\n")
            print("\n".join(table(rows)))
            everything += rows
    if arguments.json:
        arguments.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1:2] == ["--serve"] else main()
