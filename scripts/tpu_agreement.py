#!/usr/bin/env python3
"""Holds Tegula's TPU layouts against those of the real compiler, on your machine.

Needs `pip install "jax[tpu]"` (no TPU) and a built `tegula`. Each program is lowered
by JAX, compiled ahead of time by libtpu for one device of the chip, and given as HLO
text to `tegula layout`. Compared are entry parameters (all must agree), the order and
tile of results of two and more dimensions, and whether results are in HBM or VMEM.

    python3 scripts/tpu_agreement.py --tegula target/release/tegula [--chip v5e] [--keep DIR] [NAME...]

Results are matched by their dimensions (those of size 1 aside): where one side or the
other has several layouts for equal dimensions they are matched in order if there are
equally many, and are else excluded and counted. What libtpu prints stays on your
machine: with --keep it is written to a folder of yours.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

TOPOLOGY = {"v2": "v2:2x2", "v3": "v3:2x2", "v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1",
            "v6e": "v6e:2x2", "7x": "tpu7x:2x2x1"}

# What libtpu needs to compile without a TPU and without a network.
ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "JAX_PLATFORMS": "cpu",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


def programs():
    """Functions of JAX with the shapes of their arguments, by name."""
    import jax
    import jax.numpy as jnp
    from tpu_programs import more_programs

    def attention(q, k, v):
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)

    def norm(x, g, b):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g + b

    def block(x, g, b, wqkv, wo, w1, w2):
        h = norm(x, g, b) @ wqkv
        q, k, v = (part.reshape(*part.shape[:2], 12, 64) for part in jnp.split(h, 3, -1))
        x = x + attention(q, k, v).reshape(x.shape) @ wo
        return x + jax.nn.gelu(norm(x, g, b) @ w1) @ w2

    def convolution(x, w):
        return jax.nn.relu(jax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))

    f32, bf16 = jnp.float32, jnp.bfloat16
    attention_shapes = [((4, 256, 8, 64), f32)] * 3
    return {
        "matmul": (lambda x, y: x @ y, [((1024, 512), bf16), ((512, 2048), bf16)]),
        "chain": (lambda x, a, b: (x @ a) @ b, [((4096, 1024), bf16), ((1024, 1024), bf16), ((1024, 1024), bf16)]),
        "mlp": (lambda x, a, b: jax.nn.gelu(x @ a) @ b, [((256, 784), f32), ((784, 300), f32), ((300, 10), f32)]),
        "softmax": (lambda x: jax.nn.softmax(x, -1), [((8, 16, 256, 256), f32)]),
        "layernorm": (norm, [((16, 200, 512), f32), ((512,), f32), ((512,), f32)]),
        "attention": (attention, attention_shapes),
        "block": (block, [((2, 128, 768), f32), ((768,), f32), ((768,), f32), ((768, 2304), f32),
                          ((768, 768), f32), ((768, 3072), f32), ((3072, 768), f32)]),
        "convolution": (convolution, [((16, 32, 32, 64), bf16), ((3, 3, 64, 128), bf16)]),
        "transpose": (lambda x: jnp.transpose(x, (0, 2, 1)) * 2, [((8, 200, 300), f32)]),
        "gather": (lambda table, i: table[i] * 2, [((5000, 96), f32), ((300,), jnp.int32)]),
        "sort": (lambda x: jnp.sort(x, -1), [((64, 500), f32)]),
        **further_programs(convolution),
        **more_programs(),
    }


def further_programs(convolution):
    """Gradients, loops, and operations on whole arrays."""
    import jax
    import jax.numpy as jnp

    def network(x, w1, w2, w3):
        h = jax.lax.reduce_window(convolution(x, w1), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jax.nn.softmax(convolution(h, w2).mean((1, 2)) @ w3)

    def loss(w1, w2, w3, x):
        return jnp.log(network(x, w1, w2, w3)).sum()

    def language_model(table, tokens, w):
        return jax.nn.log_softmax(jnp.tanh(table[tokens] @ w) @ table.T, -1)

    def grouped_attention(q, k, v):
        batch, length, heads, size = q.shape
        q = q.reshape(batch, length, k.shape[2], heads // k.shape[2], size)
        p = jax.nn.softmax(jnp.einsum("bsghd,btgd->bghst", q, k), -1)
        return jnp.einsum("bghst,btgd->bsghd", p, v).reshape(batch, length, heads, size)

    def decode(q, k, v):
        return jnp.einsum("bhs,bshd->bhd", jax.nn.softmax(jnp.einsum("bhd,bshd->bhs", q, k), -1), v)

    def recurrence(x, w):
        first = jnp.zeros(x.shape[1:], x.dtype)
        return jax.lax.scan(lambda state, now: (jnp.tanh(state @ w + now), state), first, x)

    f32, bf16 = jnp.float32, jnp.bfloat16
    weights = [((3, 3, 3, 32), f32), ((3, 3, 32, 64), f32), ((64, 10), f32)]
    images = ((32, 32, 32, 3), f32)
    return {
        "network": (network, [images, *weights]),
        "network_gradient": (jax.grad(loss, (0, 1, 2)), [*weights, images]),
        "language_model": (language_model, [((8000, 512), f32), ((4, 128), jnp.int32), ((512, 512), f32)]),
        "grouped_attention": (grouped_attention, [((2, 256, 16, 64), bf16)] + [((2, 256, 4, 64), bf16)] * 2),
        "decode": (decode, [((8, 16, 64), bf16)] + [((8, 512, 16, 64), bf16)] * 2),
        "recurrence": (recurrence, [((50, 16, 128), f32), ((128, 128), f32)]),
        "batched": (lambda x, y: jnp.einsum("bij,bjk->bik", x, y), [((16, 200, 96), f32), ((16, 96, 300), f32)]),
        "argmax": (lambda x: jnp.argmax(x, -1), [((512, 1000), f32)]),
        "cumsum": (lambda x: jnp.cumsum(x, 1), [((64, 512), f32)]),
        "distances": (lambda x, y: jnp.exp(-((x[:, None] - y[None]) ** 2).sum(-1)), [((300, 16), f32), ((400, 16), f32)]),
        "moments": (lambda x: (x.mean(0), x.var(1)), [((300, 500), f32)]),
        "concatenate": (lambda x, y: jnp.concatenate([x * 2, y + 1], 1), [((100, 200), f32), ((100, 56), f32)]),
    }


def real_and_ours(name, chip, tegula, folder):
    """The texts of the real compiler's program and of ours."""
    import jax
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    function, shapes = programs()[name]
    topology = topologies.get_topology_desc(topology_name=TOPOLOGY[chip], platform="tpu")
    sharding = SingleDeviceSharding(topology.devices[0])
    arguments = [jax.ShapeDtypeStruct(shape, dtype, sharding=sharding) for shape, dtype in shapes]
    lowered = jax.jit(function).lower(*arguments)
    before = os.path.join(folder, name + ".hlo")
    with open(before, "w") as file:
        file.write(lowered.compiler_ir("hlo").as_hlo_text())
    real = lowered.compile().as_text()
    command = [tegula, "layout", before, "--chip", chip]
    ours = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for kind, text in (("real", real), ("ours", ours)):
        with open(os.path.join(folder, f"{name}.{kind}.hlo"), "w") as file:
            file.write(text)
    return real, ours


ARRAY = re.compile(r"(\w+)\[([\d,]*)\]\{([\d,]*)(?::([^}]*))?\}")
LINE = re.compile(r"^\s*(?:ROOT )?%?([\w.-]+) = (.*?) ([\w-]+)\(")
MOVES = {"parameter", "constant", "bitcast", "copy", "copy-start", "copy-done", "get-tuple-element", "tuple",
         "slice-start", "slice-done", "async-start", "async-done", "custom-call", "reshape", "transpose"}


def entry(text):
    """(name, opcode, arrays, names of operands) of each instruction of ENTRY."""
    inside = False
    for line in text.splitlines():
        inside = inside or line.startswith("ENTRY")
        found = LINE.match(line) if inside else None
        if found:
            shape = re.sub(r"/\*.*?\*/", "", found.group(2))
            operands = re.findall(r"[^\s,%]+", re.sub(r"/\*.*?\*/", "", line[found.end():].partition(")")[0]))
            yield found.group(1), found.group(3), [array(part) for part in ARRAY.finditer(shape)], operands
        if inside and line.startswith("}"):
            return


def array(part):
    """(dimensions, order, tiles, memory space), dimensions of 1 taken out of the first two."""
    sizes = [int(size) for size in part.group(2).split(",") if size]
    order = [int(dim) for dim in part.group(3).split(",") if dim]
    large = [dim for dim, size in enumerate(sizes) if size != 1]
    properties = part.group(4) or ""
    space = re.search(r"S\((\d+)\)", properties)
    tiles = re.search(r"T[()\d,*]+", properties)
    squeezed = len(large) == len(sizes)
    return (tuple(sizes[dim] for dim in large), tuple(large.index(dim) for dim in order if dim in large),
            tiles.group(0) if tiles and squeezed else None, int(space.group(1)) if space else 0, part.group(1))


def parameters(text):
    """Layouts of entry parameters, by number."""
    return {operands[0]: arrays for _, opcode, arrays, operands in entry(text) if opcode == "parameter"}


def turned(text):
    """Arrays that are only read through one transposition that moves nothing, as they are read: whether a
    product is of x and y or of y and x is no difference of where its elements lie."""
    lines = list(entry(text))
    users = collections.defaultdict(list)
    for _, opcode, arrays, operands in lines:
        for operand in operands:
            users[operand].append((opcode, arrays))
    read_as = {}
    for name, _, arrays, _ in lines:
        reads = [read[0] for opcode, read in users[name] if opcode == "bitcast"]
        permuted = reads and len(arrays) == 1 and sorted(reads[0][0]) == sorted(arrays[0][0])
        if permuted and len(reads) == len(users[name]) and all(read == reads[0] for read in reads):
            read_as[name] = reads[:1]
    return read_as


def results(text, what):
    """By dimensions, what is compared of each result, in order."""
    found = collections.defaultdict(list)
    read_as = turned(text)
    for name, opcode, arrays, _ in entry(text):
        for dims, order, tiles, space, element in read_as.get(name, arrays) if opcode not in MOVES else ():
            if what == "layout" and len(dims) > 1:
                found[dims].append((order, (element, tiles)))
            if what == "space" and space in (0, 1):
                found[dims].append((space, None))
    return found


def compare(real, ours):
    """(equal, different, excluded, without counterpart) of two results(), and what was matched."""
    counts = [0, 0, 0, 0]
    pairs = []
    for dims, theirs in real.items():
        own = ours.get(dims)
        if not own:
            counts[3] += len(theirs)
            continue
        plain = len({key for key, _ in own}) == 1 and len({key for key, _ in theirs}) == 1
        if not plain and len(own) != len(theirs):
            counts[2] += len(theirs)
            continue
        for number, (key, tile) in enumerate(theirs):
            own_key, own_tile = own[0] if plain else own[number]
            same_type = tile and own_tile and tile[0] == own_tile[0] and tile[1] and own_tile[1]
            same = key == own_key and (not same_type or tile == own_tile)
            counts[0 if same else 1] += 1
            pairs.append((key, own_key))
    return counts, pairs


def one(arguments):
    """Compares one program and prints a line that the caller adds up."""
    name = arguments.names[0]
    with tempfile.TemporaryDirectory() as temporary:
        real, ours = real_and_ours(name, arguments.chip, arguments.tegula, arguments.keep or temporary)
    theirs, own = parameters(real), parameters(ours)
    wrong = [key for key in theirs if theirs[key] != own.get(key)]
    layouts, _ = compare(results(real, "layout"), results(ours, "layout"))
    spaces, pairs = compare(results(real, "space"), results(ours, "space"))
    by_space = [pairs.count(pair) for pair in ((0, 0), (0, 1), (1, 0), (1, 1))]
    print("RESULT", name, len(theirs), len(wrong), *layouts, *spaces, *by_space)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs to compare; all without")
    parser.add_argument("--tegula", default="target/release/tegula", help="the program `tegula`")
    parser.add_argument("--chip", default="v5e", choices=sorted(TOPOLOGY))
    parser.add_argument("--keep", help="write all texts to this folder")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        return one(arguments)
    os.environ.update({key: os.environ.get(key, value) for key, value in ENVIRONMENT.items()})
    if arguments.keep:
        os.makedirs(arguments.keep, exist_ok=True)
    total = [0] * 14
    for name in arguments.names or list(programs()):
        # One process each: libtpu aborts on some programs.
        command = [sys.executable, __file__, "--one", name, "--tegula", arguments.tegula, "--chip", arguments.chip]
        command += ["--keep", arguments.keep] if arguments.keep else []
        run = subprocess.run(command, capture_output=True, text=True)
        line = [line for line in run.stdout.splitlines() if line.startswith("RESULT")]
        if not line:
            print(f"{name}: failed: {(run.stderr.strip().splitlines() or ['no output'])[-1]}")
            continue
        counts = [int(count) for count in line[0].split()[2:]]
        total = [a + b for a, b in zip(total, counts)]
        report(name, counts)
    report("all", total)
    hbm, vmem = total[10] / max(1, total[10] + total[11]), total[13] / max(1, total[12] + total[13])
    print(f"memory spaces: {100 * hbm:.1f} % of those in HBM, {100 * vmem:.1f} % of those in VMEM, "
          f"balanced {50 * (hbm + vmem):.1f} %")
    return 1 if total[1] else 0


def report(name, counts):
    """One line of figures."""
    given, wrong, equal, different, excluded, alone, same, other, unclear, missing = counts[:10]
    print(f"{name}: parameters {given - wrong} of {given}; orders and tiles {equal} of {equal + different} "
          f"({excluded} ambiguous, {alone} without counterpart); memory spaces {same} of {same + other} "
          f"({unclear} ambiguous, {missing} without counterpart)")


if __name__ == "__main__":
    sys.exit(main())
