"""Tests HLO files: whether they are read, and whether all targets give the same results."""

import functools
import importlib.util
import os
import re
import subprocess
import sys
import zlib

import numpy as np

import judged
from harnesses import safe, stored
from run import ROOT, tegula

# The maximum number of elements of a program's arrays: larger programs are read but not run. It is
# smaller for simulated machines, which are slower.
SMALL = 1 << 17
SMALL_ON = {"tpu": 1 << 12, "cuda-sim": 1 << 12}
# How far targets may be apart, in parts of a result's largest element. Sums of `f32` in another order,
# through a few operations, stay below the first. A rounding of `bf16` alone is 2^-8, which formats
# as narrow and a TPU's matrix units (they round operands of `f32` to it) make of every operation;
# the second one is two or three of them.
APART, APART_NARROW = "1e-4", "1e-2"
# The same of results beside XLA's, which rounds where it does not fuse: a few units of `bf16`.
NARROW_SHARE = 2.0**-4
NARROW = re.compile(r"\b(bf16|f16|f8\w+|f6\w+|f4\w+)\[")


def files(paths):
    for path in paths:
        yield from sorted([*path.rglob("*.hlo"), *path.rglob("*_test.cc")]) if path.is_dir() else [path]


def texts(path):
    """The modules in a file: one or several of HLO, or those in the raw strings of a C++ test. What
    such a test puts together when it runs, with `$0` in the text, is none."""
    text = path.read_text(errors="replace")
    if path.suffix == ".cc":
        strings = (match["text"].strip() for match in re.finditer(r'R"(?P<end>\w*)\((?P<text>.*?)\)(?P=end)"', text, re.S))
        whole = lambda s: s.startswith("HloModule") and "ENTRY" in s and "$" not in s
        return [s + "\n" for s in dict.fromkeys(strings) if whole(s)]
    starts = [match.start() for match in re.finditer(r"(?m)^HloModule\b", text)]
    cuts = [0, *starts[1:], len(text)]
    return [text[start:end] for start, end in zip(cuts, cuts[1:])]


def programs(arguments):
    """The modules of the files, by name."""
    found = {}
    for path in files(arguments.modules):
        for number, text in enumerate(texts(path)):
            found[f"{path.parent.name}/{path.stem}.{number}"] = text
    return found


def parsed(text):
    """Whether XLA's parser accepts a text."""
    from jax._src.lib import xla_client

    try:
        xla_client.hlo.hlo_module_from_text(re.sub(r"(?m)\A(\s*#.*\n)+", "", text))
    except Exception as error:
        return " ".join(str(error).split())[:200]
    return None


# What XLA's verifier refuses and the way through StableHLO puts right before it is asked: what we say
# of it, and the check of xla/service/hlo_verifier.cc. A text that we refuse for any other reason is
# one that XLA:CPU is asked about.
REFUSED_BY_VERIFIER = {
    r"`send`: the result must begin with": "HandleSend: the shape of what is sent",
    r"`all-gather-start\S*`: the shape should be": "HandleAllGatherStart: the shape of the start",
    r"`collective-permute-start`: the result must begin with": "HandleCollectivePermuteStart: the shape of the start",
    r": the shape should be (\S+), found \(\1, \1\)": "HandleAllReduceStart: the shape of the start",
    r": the shape should be \(\S+, token\[\]\), found \(\S+, token\[\]\)": "HandleRecvDone: the shape of what is received",
    r"`convolution`: .*window": "InferConvolveShape: a window of the kernel's size",
    r"`broadcast`: sizes of operand dimension \d+ and result dimension \d+ must be equal": "HandleBroadcast: equal sizes",
    r"entry_computation_layout does not fit the entry computation": "VerifyEntryComputationLayout: equal shapes",
}


XLA_SECONDS = 60


def refused_by_xla(text, about):
    """XLA's error for a program for which our error is `about`; None if XLA compiles it. XLA runs
    in a separate process, which a failed check of XLA terminates."""
    for pattern, check in REFUSED_BY_VERIFIER.items():
        if re.search(pattern, about):
            return f"its verifier refuses it, too: {check}"
    command = [sys.executable, __file__]
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=XLA_SECONDS)
    except subprocess.TimeoutExpired:
        return f"it takes XLA more than {XLA_SECONDS} s to compile"
    if done.returncode < 0:
        return "it ends XLA's process"
    return done.stdout.strip()[:200] or None


def compile_by_xla(text):
    """Prints XLA's error for a program."""
    import jax
    from jax._src.lib import _jax, xla_client

    try:
        module = xla_client.hlo.hlo_module_from_text(re.sub(r"(?m)\A(\s*#.*\n)+", "", text))
        stablehlo = xla_client._xla.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
        devices = _jax.DeviceList(tuple(jax.devices()[:1]))
        jax.devices()[0].client.compile_and_load(stablehlo, devices, xla_client.CompileOptions())
    except Exception as error:
        about = " ".join(str(error).split())
        # These errors mean that XLA:CPU does not support the program, not that it is invalid.
        if not re.match(r"NOT_FOUND|UNIMPLEMENTED", about):
            print(about)


@functools.cache
def xla():
    """XLA:CPU in a separate process, which compiles and runs one program after the other."""
    spec = importlib.util.spec_from_file_location("peers", ROOT / "benches/peers/run.py")
    peers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peers)
    return peers.Xla(sorted(os.sched_getaffinity(0)))


def made_up(name, text):
    """Reproducible inputs of a program (normally distributed numbers, small integers as indices), and
    the types of its results. None for programs with nested tuples or tokens."""
    from jax._src.lib import xla_client

    module = xla_client.hlo.hlo_module_from_text(re.sub(r"(?m)\A(\s*#.*\n)+", "", text))
    shape = xla_client.XlaComputation(module.as_serialized_hlo_module_proto()).program_shape()
    results = shape.result_shape()
    results = results.tuple_shapes() if results.is_tuple() else [results]
    if not all(leaf.is_array() for leaf in (*shape.parameter_shapes(), *results)):
        return None
    r = np.random.RandomState(zlib.crc32(name.encode()))
    inputs = []
    for parameter in shape.parameter_shapes():
        dims, dtype = parameter.dimensions(), parameter.numpy_dtype()
        kind = dtype.kind
        if kind == "c":
            array = r.randn(*dims) + 1j * r.randn(*dims)
        elif kind in "bui":
            array = r.randint(0, 2 if kind == "b" else 4, dims)
        else:
            array = r.randn(*dims)
        inputs.append(np.asarray(array).astype(dtype))
    return inputs, [result.numpy_dtype() for result in results]


def units(dtype, text):
    """The tolerance for results compared with XLA's, in units of their precision."""
    unit = judged.precision(dtype)
    return NARROW_SHARE / unit if unit and NARROW.search(text) else judged.UNITS


def held_against_xla(name, text, hlo, arguments):
    """The outcome if XLA:CPU's results differ; None if they are the same or XLA has none."""
    if (made := made_up(name, text)) is None:
        return None
    inputs, types = made
    given, ours, theirs = (hlo.with_suffix(end) for end in (".in.npz", ".out.npz", ".xla.npz"))
    np.savez(given, **{f"in{i}": stored(x) for i, x in enumerate(inputs)})
    answer = xla().ask(hlo=str(hlo), inputs=str(given), results=str(theirs))
    if "error" in answer:
        given.unlink()
        return None
    target = arguments.targets[-1]
    if failure := tegula(arguments, "run", hlo, "--target", target, "--inputs", given, "--outputs", ours):
        return failure[0], f"on inputs for XLA: {failure[1]}"
    with np.load(ours) as found, np.load(theirs) as expected:
        arrays = lambda npz: [npz[f"out{i}"] for i in range(len(types))]
        pairs = list(zip(types, arrays(expected), arrays(found)))
    seen_as = lambda x, dtype: x if x.dtype == dtype else x.view(dtype)
    wrong = [judged.apart(seen_as(e, t), seen_as(f, t), units(t, text)) for t, e, f in pairs]
    number = next((number for number, about in enumerate(wrong) if about), None)
    if number is not None:
        return "differs", f"{target} and XLA:CPU, result {number}: {wrong[number]}"
    for file in (given, ours, theirs):
        file.unlink()
    return None


def size(text):
    shapes = re.findall(r"\b(?:pred|token|[a-z]+\d+[a-z0-9]*)\[([\d, ]*)\]", text)
    return max((int(np.prod([int(d) for d in s.split(",") if d])) for s in shapes), default=0)


def apart(target, text):
    return APART_NARROW if target == "tpu" or NARROW.search(text) else APART


def judge(name, text, arguments):
    refused = parsed(text)
    if refused:
        return "not xla's", refused
    hlo = arguments.folder / f"{safe(name)}.hlo"
    hlo.write_text(text)
    read = [hlo, "--fill-elided", "0"]
    # The evaluator takes long for loops with many iterations, so its time is limited.
    run = [*read, "--steps", "1000000000"]
    failure = tegula(arguments, "compile", "--emit", "hlo", *read)
    if failure and (refused := failure[0] == "refused" and refused_by_xla(text, failure[1])):
        hlo.unlink()
        return "not xla's", refused
    if failure:
        return failure[0], f"reading: {failure[1]}"
    if size(text) > SMALL:
        failure = tegula(arguments, "compile", "--emit", "plan", *read)
        if failure:
            return "read" if failure[0] == "refused" else failure[0], f"planning: {failure[1]}"
        hlo.unlink()
        return "agrees", "read and planned; too large to run"
    outputs = hlo.with_suffix(".npz")
    refusals = []
    reference = None
    targets = [t for t in arguments.targets if size(text) <= SMALL_ON.get(t, SMALL)]
    for target in targets:
        command = ["run", *run, "--target", target]
        if reference is None:
            failure = tegula(arguments, *command, "--outputs", outputs)
            reference = None if failure else target
        else:
            failure = tegula(arguments, *command, "--check", outputs, "--scale-tol", apart(target, text))
        if failure and failure[0] == "broken":
            about = f"{target}: {failure[1]}"
            return "broken", about if failure[1] != "no message" else f"{target} differs from {reference}"
        if failure:
            refusals.append(f"{target}: {failure[1]}")
    outputs.unlink(missing_ok=True)
    if len(refusals) == len(targets):
        hlo.unlink()
        return "read", refusals[0][:200]
    if refusals:
        return "refused", "; ".join(refusals)[:300]
    if arguments.xla and (outcome := held_against_xla(name, text, hlo, arguments)):
        return outcome
    hlo.unlink()
    return "agrees", ""


if __name__ == "__main__":
    compile_by_xla(sys.stdin.read())
