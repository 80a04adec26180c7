"""Which operation runs on which target, found by trying: the matrix of docs/limits.md.

    python scripts/operation_matrix.py [--tegula PATH] [--write]

A small program of each opcode is run on the evaluators, the CPU, the simulated TPU and as one of two
devices, compiled to CUDA's source and to an object. What a target refuses it says itself; nothing is
known here. `--write` puts the matrix into docs/limits.md, without it a difference is an error.

One program stands for an opcode: element types, open sizes and odd attributes are not in the matrix.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- matrix: scripts/operation_matrix.py -->", "<!-- end of the matrix -->"

COMPUTATIONS = """
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
less { x = f32[] parameter(0) y = f32[] parameter(1) ROOT c = pred[] compare(x, y), direction=LT }
limit { t = (s32[], f32[8,8]) parameter(0) i = s32[] get-tuple-element(t), index=0 n = s32[] constant(10) ROOT c = pred[] compare(i, n), direction=LT }
body { t = (s32[], f32[8,8]) parameter(0) i = s32[] get-tuple-element(t), index=0 one = s32[] constant(1) j = s32[] add(i, one) v = f32[8,8] get-tuple-element(t), index=1 ROOT r = (s32[], f32[8,8]) tuple(j, v) }
branch { v = f32[8,8] parameter(0) ROOT n = f32[8,8] negate(v) }
step { c = f32[8] parameter(0) x = f32[8] parameter(1) s = f32[8] add(c, x) ROOT t = (f32[8], f32[8]) tuple(s, s) }
"""
INPUTS = {
    "a": "f32[8,8]", "b": "f32[8,8]", "v": "f32[8]", "m": "f32[2,8,8]", "z": "c64[4,8]", "i": "s32[]", "s": "s32[8,8]",
    "u": "u32[8,8]", "p": "pred[8,8]", "ids": "s32[7,1]", "image": "f32[2,9,9,4]", "filters": "f32[3,3,4,8]", "zero": "f32[]",
    "bf": "bf16[8,8]", "rows": "f32[7,8]", "q": "f32[2,2]",
}  # fmt: skip
GROUPS = "replica_groups={{0,1}}, channel_id=1, use_global_device_ids=true"
TRIANGLE = "left_side=true, lower=true, transpose_a=NO_TRANSPOSE"

# Every operation between arrays of one shape, by the inputs it takes.
ELEMENTWISE = {
    "a": "abs cbrt ceil cosine erf exponential exponential-minus-one floor log log-plus-one logistic negate "
    "round-nearest-afz round-nearest-even rsqrt sign sine sqrt tan tanh acos acosh asin asinh atanh cosh sinh",
    "a b": "add atan2 divide maximum minimum multiply power remainder subtract",
    "s": "not popcnt count-leading-zeros",
    "s s": "and or xor shift-left shift-right-arithmetic shift-right-logical",
}
# The others: what stands in the entry computation; the last line is the result.
OTHERS = {
    "is-finite": "r = pred[8,8] is-finite(a)", "compare": "r = pred[8,8] compare(a, b), direction=LT",
    "select": "r = f32[8,8] select(p, a, b)", "clamp": "r = f32[8,8] clamp(zero, a, b)", "complex": "r = c64[8,8] complex(a, b)",
    "real": "r = f32[4,8] real(z)", "imag": "r = f32[4,8] imag(z)", "convert": "r = bf16[8,8] convert(a)",
    "bitcast-convert": "r = s32[8,8] bitcast-convert(a)", "stochastic-convert": "r = s8[8,8] stochastic-convert(a, u)",
    "reduce-precision": "r = f32[8,8] reduce-precision(a), exponent_bits=8, mantissa_bits=7", "copy": "r = f32[8,8] copy(a)",
    "iota": "r = s32[8,8] iota(), iota_dimension=1", "constant": "r = f32[2] constant({1, 2})", "broadcast": "r = f32[8,2,8] broadcast(a), dimensions={0,2}",
    "reshape": "r = f32[64] reshape(a)", "bitcast": "r = f32[4,16] bitcast(a)", "transpose": "r = f32[8,8] transpose(a), dimensions={1,0}",
    "reverse": "r = f32[8,8] reverse(a), dimensions={0}", "slice": "r = f32[2,3] slice(a), slice={[1:4:2], [0:3:1]}",
    "pad": "r = f32[11,9] pad(a, zero), padding=2_1x0_1_0", "concatenate": "r = f32[16,8] concatenate(a, b), dimensions={0}",
    "dynamic-slice": "r = f32[2,3] dynamic-slice(a, i, i), dynamic_slice_sizes={2,3}", "dynamic-update-slice": "r = f32[8,8] dynamic-update-slice(a, q, i, i)",
    "gather": "r = f32[7,8] gather(a, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}",
    "scatter": "r = f32[8,8] scatter(a, ids, rows), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    "dot": "r = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "ragged-dot": "gs = s32[2] constant({3, 5})\n r = f32[8,8] ragged-dot(a, m, gs), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
    "scaled-dot": "r = f32[8,8] scaled-dot(a, b, zero, zero), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "convolution": "r = f32[2,9,9,8] convolution(image, filters), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
    "reduce": "r = f32[8] reduce(a, zero), dimensions={1}, to_apply=add", "reduce-window": "r = f32[7,7] reduce-window(a, zero), window={size=2x2}, to_apply=add",
    "select-and-scatter": "w = f32[7,7] reduce-window(a, zero), window={size=2x2}, to_apply=add\n r = f32[8,8] select-and-scatter(a, w, zero), window={size=2x2}, select=less, scatter=add",
    "map": "r = f32[8,8] map(a, b), dimensions={0,1}, to_apply=add", "sort": "r = f32[8,8] sort(a), dimensions={1}, to_apply=less",
    "topk": "r = (f32[8,2], s32[8,2]) topk(a), k=2, largest=true", "scan": "r = (f32[8,8], f32[8]) scan(a, v), dimensions={0}, num_carries=1, to_apply=step",
    "fft": "r = c64[4,8] fft(z), fft_type=FFT, fft_length={8}", "cholesky": "r = f32[2,8,8] cholesky(m), lower=true",
    "triangular-solve": f"r = f32[2,8,8] triangular-solve(m, m), {TRIANGLE}",
    "batch-norm-training": "r = (f32[8,8], f32[8], f32[8]) batch-norm-training(a, v, v), epsilon=0.001, feature_index=1",
    "batch-norm-inference": "r = f32[8,8] batch-norm-inference(a, v, v, v, v), epsilon=0.001, feature_index=1",
    "batch-norm-grad": "r = (f32[8,8], f32[8], f32[8]) batch-norm-grad(a, v, v, v, b), epsilon=0.001, feature_index=1",
    "rng": "one = f32[] constant(1)\n r = f32[8,8] rng(zero, one), distribution=rng_uniform",
    "rng-bit-generator": "st = u64[2] constant({1, 2})\n r = (u64[2], u32[8,8]) rng-bit-generator(st), algorithm=rng_philox",
    "rng-get-and-update-state": "r = u64[1] rng-get-and-update-state(), delta=4096",
    "tuple": "r = (f32[8,8], f32[8]) tuple(a, v)", "get-tuple-element": "t = (f32[8,8], f32[8]) tuple(a, v)\n r = f32[8] get-tuple-element(t), index=1",
    "while": "none = s32[] constant(0)\n t = (s32[], f32[8,8]) tuple(none, a)\n r = (s32[], f32[8,8]) while(t), condition=limit, body=body",
    "conditional": "r = f32[8,8] conditional(i, a, b), branch_computations={branch, branch}", "call": "r = f32[8,8] call(a), to_apply=branch",
    "fusion": "r = f32[8,8] fusion(a), kind=kLoop, calls=branch", "opt-barrier": "t = (f32[8,8], f32[8]) tuple(a, v)\n r = (f32[8,8], f32[8]) opt-barrier(t)",
    "custom-call": "r = (f32[8,8], s32[8], s32[8]) custom-call(a), custom_call_target=\"LuDecomposition\"",
    "copy-start": "c = (f32[8,8], f32[8,8], u32[]) copy-start(a)\n r = f32[8,8] copy-done(c)",
    "async-start": "c = ((f32[8,8]), f32[8,8], u32[]) negate-start(a)\n r = f32[8,8] negate-done(c)",
    "get-dimension-size": "r = s32[] get-dimension-size(a), dimensions={1}", "set-dimension-size": "six = s32[] constant(6)\n r = f32[8,<=8] set-dimension-size(a, six), dimensions={1}",
    "dynamic-reshape": "n = s32[] constant(64)\n r = f32[<=64] dynamic-reshape(a, n)",
    "domain": "r = f32[8,8] domain(a), domain={kind=\"sharding\", entry={replicated}, exit={maximal device=0}}",
    "after-all": "t = token[] after-all()\n r = f32[8,8] add-dependency(a, t)",
    "infeed": "t = token[] after-all()\n r = (f32[3], token[]) infeed(t)", "outfeed": "t = token[] after-all()\n r = token[] outfeed(a, t), outfeed_shape=f32[8,8]",
    "send": "t = token[] after-all()\n x = (f32[8,8], u32[], token[]) send(a, t), channel_id=1, is_host_transfer=true\n r = token[] send-done(x), channel_id=1, is_host_transfer=true",
    "recv": "t = token[] after-all()\n x = (f32[8,8], u32[], token[]) recv(t), channel_id=2, is_host_transfer=true\n r = (f32[8,8], token[]) recv-done(x), channel_id=2, is_host_transfer=true",
    "partition-id": "r = u32[] partition-id()", "replica-id": "r = u32[] replica-id()",
    "all-gather": f"r = f32[16,8] all-gather(a), {GROUPS}, dimensions={{0}}", "all-reduce": f"r = f32[8,8] all-reduce(a), {GROUPS}, to_apply=add",
    "reduce-scatter": f"r = f32[4,8] reduce-scatter(a), {GROUPS}, dimensions={{0}}, to_apply=add", "all-to-all": "r = f32[8,8] all-to-all(a), replica_groups={{0,1}}, channel_id=1, dimensions={0}",
    "collective-broadcast": "r = f32[8,8] collective-broadcast(a), replica_groups={{0,1}}, channel_id=1", "collective-permute": "r = f32[8,8] collective-permute(a), source_target_pairs={{0,1},{1,0}}, channel_id=1",
}  # fmt: skip
COLLECTIVES = "all-gather all-reduce reduce-scatter all-to-all collective-broadcast collective-permute partition-id".split()

# Copies and sizes: a device needs no function of its own for them.
COPIES = "copy constant reshape bitcast tuple get-tuple-element opt-barrier copy-start get-dimension-size dynamic-reshape domain after-all partition-id replica-id".split()

TARGETS = ["interp", "plan", "cpu", "tpu", "CUDA", "object", "2 devices"]


def program(opcode):
    """The text of a module whose result is one such operation."""
    lines = OTHERS.get(opcode)
    for operands, names in ELEMENTWISE.items():
        if opcode in names.split():
            lines = f"r = {INPUTS[operands[0]]} {opcode}({', '.join(operands.split())})"
    *before, last = lines.split("\n")
    used = [name for name in INPUTS if re.search(rf"[(,] *{name} *[,)]", lines)]
    parameters = [f"{name} = {INPUTS[name]} parameter({number})" for number, name in enumerate(used)]
    header = ", num_partitions=2" if opcode in COLLECTIVES else ""
    entry = "\n".join([*parameters, *before, "ROOT " + last.strip()])
    return f"HloModule m{header}\n{COMPUTATIONS}\nENTRY e {{\n{entry}\n}}\n"


def outcome(tegula, target, opcode, path):
    """"yes", "host" (the CUDA target does it on the host), or why not."""
    if target == "object":
        with tempfile.TemporaryDirectory() as folder:
            done = run([tegula, "compile", path, "--emit", "object", "-o", folder + "/o"])
    elif target == "CUDA":
        done = run([tegula, "compile", path, "--target", "cuda", "--emit", "cuda"])
        if done.returncode == 0 and "__global__" not in done.stdout and opcode not in COPIES:
            return "host"
    elif target == "2 devices":
        done = run([tegula, "run", path, "--devices", "2"])
    else:
        done = run([tegula, "run", path, "--target", target])
    return "yes" if done.returncode == 0 else done.stderr.strip().splitlines()[0].removeprefix("error: ").replace(str(path) + ": ", "")


def run(command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)


def matrix(tegula):
    opcodes = [name for names in ELEMENTWISE.values() for name in names.split()] + list(OTHERS)
    found, reasons = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "p.hlo"
        for opcode in opcodes:
            path.write_text(program(opcode))
            row = [outcome(tegula, target, opcode, path) for target in TARGETS]
            found[opcode] = tuple(cell if cell in ("yes", "host") else "no" for cell in row)
            reasons[opcode] = {target: cell for target, cell in zip(TARGETS, row) if cell not in ("yes", "host")}
    return found, reasons


def written(found):
    alike = {}
    for opcode, row in found.items():
        alike.setdefault(row, []).append(f"`{opcode}`")
    lines = ["| operations | " + " | ".join(TARGETS) + " |", "|---|" + ":---:|" * len(TARGETS)]
    for row, opcodes in sorted(alike.items(), key=lambda item: -len(item[1])):
        marks = {"yes": "yes", "host": "host", "no": "–"}
        lines.append(f"| {' '.join(opcodes)} | " + " | ".join(marks[cell] for cell in row) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="the matrix of operations and targets")
    parser.add_argument("--tegula", default=str(ROOT / "target/release/tegula"))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--why", action="store_true", help="print what each target says of what it refuses")
    arguments = parser.parse_args()
    found, reasons = matrix(arguments.tegula)
    if arguments.why:
        for opcode, row in reasons.items():
            for target, reason in row.items():
                print(f"{opcode}, {target}: {reason}")
    page = ROOT / "docs/limits.md"
    text = page.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    now = f"{before}{BEGIN}\n\n{written(found)}\n\n{END}{after}"
    if arguments.write:
        page.write_text(now)
    elif now != text:
        print("docs/limits.md has another matrix: python scripts/operation_matrix.py --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
