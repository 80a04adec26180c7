"""Fuzzes the command line with mutated inputs: for any input it must end within limits of time and
memory, with a documented exit code, and without a panic.

    python benches/conformance/mutated.py FOLDER --count N [--seed S] [--jobs J] [--tegula PATH] [FILES...]

Inputs are the texts of tests/, examples/models and FILES (files or folders of .hlo), StableHLO texts
and bytecode, npz files, kernel texts, indexing maps and shapes, each changed in a few places: words
for words of the same kind, words of the same text, bytes. Each is the input of a random command.
A process has 10 seconds (of a release build; `--seconds` for others) and 4 GB of addresses; its exit
code is 0, 1 or 2, and 1 only of commands that look for something.

A program that is run is small (no array of more than 65,536 elements, 4,096 on evaluators and
simulators), and on targets that count no steps it has no loop: a mutated loop need not end. FOLDER keeps each input that failed, with its
command, and `done.json`, with which an interrupted run of this script continues.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS, BYTES = 10, 4 << 30
SMALL, SMALL_EVALUATED = 1 << 16, 1 << 12
LARGEST_TEXT = 12_000

NUMBERS = ["0", "1", "2", "3", "7", "?", "<=4", "-1", "100000", "2147483648", "9223372036854775807", "nan", "inf"]
TYPES = "pred s1 s2 s4 s8 s16 s32 s64 u1 u2 u4 u8 u16 u32 u64 f4e2m1fn f8e5m2 f8e4m3fn f8e8m0fnu f16 bf16 f32 f64 c64 c128".split()
OPERATIONS = [
    "add subtract multiply divide maximum minimum power remainder and or xor atan2 shift-left complex".split(),
    "negate abs exponential tanh sign floor not is-finite cbrt real imag sine logistic rsqrt convert copy popcnt".split(),
    "reshape transpose broadcast reverse slice pad concatenate gather scatter dynamic-slice bitcast bitcast-convert".split(),
    "dot ragged-dot scaled-dot convolution scan reduce reduce-window sort map while conditional call fft cholesky".split(),
    "LT GE EQ NE GT LE".split(),
    "true false".split(),
]  # fmt: skip
SYMBOLS = list("(){}[],=:*+-/%.?") + ["mod", "floordiv", "->", "domain:", "in"]


def alike(word, draw):
    if re.fullmatch(r"-?\d+", word):
        return draw.choice(NUMBERS)
    for group in (TYPES, *OPERATIONS):
        if word in group:
            return draw.choice(group)
    return None


def mutated_text(text, draw):
    words = re.findall(r"[\w.\-]+|\s+|.", text, re.DOTALL) or [" "]
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(words))
        for step in range(len(words)):
            if alike(words[(at + step) % len(words)], draw) is not None:
                at = (at + step) % len(words)
                break
        old = words[at]
        kind = draw.randrange(10)
        new = (
            draw.choice(words) if kind == 0
            else "" if kind == 1
            else draw.choice(SYMBOLS) if kind == 2
            else alike(old, draw) or draw.choice(words)
        )  # fmt: skip
        if kind >= 3 and draw.random() < 0.5:
            # Replaces a size, a type or a name everywhere, so that more of the programs are valid.
            words = [new if word == old else word for word in words]
        elif kind == 2 and draw.random() < 0.3:
            start, end = sorted(draw.randrange(len(words)) for _ in range(2))
            words[at:at] = words[start : min(end, start + 200)]
        else:
            words[at] = new
    return "".join(words)


def mutated_bytes(data, draw):
    data = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        near = min(draw.randrange(200), len(data) - 1)
        at = draw.choice([near, len(data) - 1 - near, draw.randrange(len(data))])
        kind = draw.randrange(5)
        if kind == 0:
            data[at] = draw.choice([0, 0xFF, 0x7F, 0x80])
        elif kind == 1:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 2:
            del data[at : at + draw.randint(1, 8)]
        elif kind == 3:
            data[at:at] = bytes(draw.randrange(256) for _ in range(draw.randint(1, 8)))
        else:
            data[at : at + 4] = draw.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x7f"])
        data = data or bytearray(b"\0")
    return bytes(data)


def sizes(text):
    found = re.findall(r"\b(?:token|[a-z]+\d+[a-z0-9]*|pred|tensor)[\[<]([\d,x]*)", text)
    return (np.prod([int(d) for d in re.split("[,x]", s) if d], dtype=float) for s in found)


def program_commands(text, name, draw):
    """A random command on a program; commands that run it only if it is small and terminates."""
    largest = max(sizes(text), default=0)
    small, tiny = largest <= SMALL, largest <= SMALL_EVALUATED
    loops = "while" in text or "scan" in text
    steps = ["--steps", "20000"]
    emits = ("hlo", "stablehlo", "stablehlo-generic", "fused", "plan", "clif", "asm", "cuda", "tpu")
    choices = [
        *(["compile", name, "--emit", emit] for emit in emits),
        ["compile", name, "--emit", "tpu", "--target", "tpu"],
        ["index", name],
        ["index", name, "--direction", "input-to-output"],
        ["layout", name],
        ["layout", name, "--target", "cpu"],
        ["shape", name],
        ["simulate", name, "--no-values", *steps],
        ["simulate", name, "--expanded"],
    ]
    choices.append(["shape", name, "--why", "a:0", "b:0"])
    if tiny:
        choices += [["run", name, "--target", target, *steps] for target in ("interp", "tpu")] * 2
        choices.append(["simulate", name, *steps])
    if small and not loops:
        choices += [["run", name, "--target", "cpu"]] * 4
        if tiny:
            choices += [["run", name, "--target", "plan"]] * 2
            if draw.random() < 0.02:
                return ["bench", name, "--target", "plan"]
    if draw.random() < 0.01:
        return ["reduce", name, "--max-tries", "3", "-o", name + ".reduced", "--", "false"]
    return draw.choice(choices) + (["--json"] if draw.random() < 0.1 else [])


class Corpus:
    """The inputs to mutate."""

    def __init__(self, arguments):
        folders = [ROOT / "tests/data", ROOT / "tests/filetests", ROOT / "crates/stablehlo/tests/data"]
        files = [f for folder in [*folders, *arguments.files] for f in ([folder] if folder.is_file() else sorted(folder.rglob("*")))]
        of = lambda *ends: [f for f in files if f.suffix in ends]
        self.programs, self.maps, self.shapes = [], [], []
        for file in of(".hlo", ".mlir"):
            text = file.read_text(errors="replace")
            cuts = [m.start() for m in re.finditer(r"(?m)^HloModule\b", text)][1:]
            parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]
            self.programs += [part for part in parts if len(part) <= LARGEST_TEXT]
        self.binaries = [f.read_bytes() for f in of(".mlirbc", ".jaxexport") if f.stat().st_size < 1 << 18]
        self.kernels = [f.read_text() for f in of(".kernel")]
        for file in of(".txt", ".hlo"):
            for line in re.findall(r"// run: (.*)", file.read_text(errors="replace")):
                if found := re.match(r"simplify '(.+?)'", line):
                    self.maps.append(found[1])
                if found := re.match(r"shape '(.+?)'", line):
                    self.shapes.append(found[1])
        self.npz = [f.read_bytes() for f in of(".npz") if f.stat().st_size < 1 << 16]
        for dtype in (np.float32, np.float32, np.float32, np.int8, np.complex128):
            with tempfile.NamedTemporaryFile(suffix=".npz") as file:
                np.savez(file, in0=np.ones((2, 3), dtype), in1=np.zeros((), dtype), other=np.ones(0, dtype))
                self.npz.append(pathlib.Path(file.name).read_bytes())


READS_NPZ = """HloModule m
ENTRY e { a = f32[2,3] parameter(0) b = f32[] parameter(1) c = f32[2,3] broadcast(b), dimensions={} ROOT d = f32[2,3] add(a, c) }
"""


def case(corpus, draw, folder, tegula):
    """Writes the files that a random command reads, and returns the command."""
    kind = draw.choices(
        ["program", "binary", "npz", "kernel", "simplify", "shape", "made"], [60, 6, 8, 12, 6, 4, 4]
    )[0]
    at = lambda name: str(folder / name)
    if kind == "program":
        text = mutated_text(draw.choice(corpus.programs), draw)
        pathlib.Path(at("p.hlo")).write_text(text)
        return kind, program_commands(text, at("p.hlo"), draw)
    if kind == "binary" and corpus.binaries:
        pathlib.Path(at("p.mlirbc")).write_bytes(mutated_bytes(draw.choice(corpus.binaries), draw))
        emit = draw.choice(["hlo", "stablehlo", "plan", "fused"])
        return kind, draw.choice([["compile", at("p.mlirbc"), "--emit", emit], ["index", at("p.mlirbc")], ["run", at("p.mlirbc"), "--target", "interp", "--steps", "20000"]])
    if kind == "npz":
        pathlib.Path(at("p.hlo")).write_text(READS_NPZ)
        pathlib.Path(at("i.npz")).write_bytes(mutated_bytes(draw.choice(corpus.npz), draw))
        option = draw.choice(["--inputs", "--check"])
        return kind, ["run", at("p.hlo"), option, at("i.npz"), "--target", draw.choice(["interp", "cpu"])]
    if kind == "simplify":
        text = mutated_text(draw.choice(corpus.maps), draw).replace("\0", " ")
        options = draw.choice([[], ["--explain"], ["--check"], ["--json"]])
        return kind, ["simplify", *options, "--", text]
    if kind == "shape":
        text = mutated_text(draw.choice(corpus.shapes), draw).replace("\0", " ")
        options = draw.choice([[], ["--index", "1,1"], ["--linear", "5"], ["--json"], ["--draw"]])
        return kind, ["shape", *options, "--", text]
    if kind == "made":
        # Kernels that the command line itself writes.
        kernel = subprocess.run(
            [tegula, "compile", "--emit", "tpu", "--target", "tpu", write(at("q.hlo"), draw.choice(corpus.programs))],
            capture_output=True, timeout=SECONDS * 6,
        ).stdout.decode(errors="replace")  # fmt: skip
        if kernel and len(kernel) < 4 * LARGEST_TEXT:
            corpus.kernels.append(kernel)
            del corpus.kernels[:-400]
    text = mutated_text(draw.choice(corpus.kernels), draw)
    # Tiles count as well: padded to large tiles, a small array is large.
    large = max(map(int, re.findall(r"\d+", text)), default=0) > 4096 or max(sizes(text), default=0) > SMALL
    if large:
        return "kernel", ["simulate", write(at("p.kernel"), text), "--steps", "20000", draw.choice(["--no-values", "--expanded"])]
    option = draw.choice([[], ["--no-values"], ["--expanded"], ["--json"], ["--chip", draw.choice(["v4", "v5p", "v6e", "7x"])]])
    return "kernel", ["simulate", write(at("p.kernel"), text), "--steps", "20000", *option]


def write(path, text):
    pathlib.Path(path).write_text(text)
    return path


def failure(tegula, command, seconds=SECONDS):
    """The exit code, and the reason why the command failed the test; None if it passed."""
    for attempt in range(2):
        # On a busy machine, a process may take that long, so a time-out is tried again.
        try:
            done = subprocess.run([tegula, *command], capture_output=True, timeout=seconds, close_fds=False)
            break
        except subprocess.TimeoutExpired:
            if attempt:
                return "late", f"more than {seconds} s"
    errors = done.stderr.decode(errors="replace")
    if "panicked" in errors:
        return done.returncode, next(line for line in errors.splitlines() if "panicked" in line)
    if done.returncode not in (0, 1, 2):
        return done.returncode, f"exit code {done.returncode}: {errors[-300:]}"
    # Exit code 1 means a finding, which only these commands have; from others it is a failure.
    finds = command[0] in ("simulate", "reduce", "shape") or "--check" in command
    if done.returncode == 1 and not finds:
        return done.returncode, f"exit code 1: {errors[:300]}"
    return done.returncode, None


def main():
    parser = argparse.ArgumentParser(description="mutated inputs through the whole program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=500_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--tegula", default=str(ROOT / "target/release/tegula"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    # The limit of memory is inherited by child processes.
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    corpus = Corpus(arguments)
    state = arguments.folder / "done.json"
    counts = collections.Counter(json.loads(state.read_text()) if state.exists() else {})
    lock, first = threading.Lock(), counts["done"]
    numbers = iter(range(first, arguments.count))

    def work():
        folder = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                break
            draw = random.Random(f"{arguments.seed}/{number}")
            kind, command = case(corpus, draw, folder, arguments.tegula)
            code, wrong = failure(arguments.tegula, command, arguments.seconds)
            if wrong:
                kept = arguments.folder / f"{number}"
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(folder, kept)
                (kept / "command.json").write_text(json.dumps([command, wrong], indent=1))
                print(f"{number}: {' '.join(command)[:160]}: {wrong}", file=sys.stderr, flush=True)
            with lock:
                counts["done"] += 1
                counts[f"{kind}, {command[0]}, exit {code}" if code in (0, 1, 2) else "other"] += 1
                counts["failed"] += bool(wrong)
                if counts["done"] % 500 == 0:
                    state.write_text(json.dumps(counts))
        shutil.rmtree(folder, ignore_errors=True)

    workers = [threading.Thread(target=work) for _ in range(arguments.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    state.write_text(json.dumps(counts))
    for name, count in sorted(counts.items()):
        print(f"{count:9} {name}")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
