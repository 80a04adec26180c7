"""HLO files as programs: are they read, and do the targets agree?"""

import re

import numpy as np

from harnesses import safe
from run import tegula

# Elements of a program's arrays, above which it is read and not run.
SMALL = 1 << 17


def files(paths):
    for path in paths:
        yield from sorted(path.rglob("*.hlo")) if path.is_dir() else [path]


def programs(arguments):
    """The modules of the files, by name."""
    found = {}
    for path in files(arguments.modules):
        text = path.read_text(errors="replace")
        starts = [match.start() for match in re.finditer(r"(?m)^HloModule\b", text)]
        cuts = [0, *starts[1:], len(text)]
        for number, (start, end) in enumerate(zip(cuts, cuts[1:])):
            found[f"{path.parent.name}/{path.stem}.{number}"] = text[start:end]
    return found


def parsed(text):
    """Whether XLA's parser takes a text."""
    from jax._src.lib import xla_client

    try:
        xla_client.hlo.hlo_module_from_text(re.sub(r"(?m)\A(\s*#.*\n)+", "", text))
    except Exception as error:
        return " ".join(str(error).split())[:200]
    return None


# What XLA's verifier refuses and the way through StableHLO puts right before it is asked, with the
# check of xla/service/hlo_verifier.cc.
REFUSED_BY_VERIFIER = {
    r"tests/import_async\.1": "HandleAllGatherStart: the shape of the start",
    r"tests/import_async\.3": "HandleCollectivePermuteStart: the shape of the start",
    r"tests/import_async\.10": "HandleAllReduceStart: the shape of the start",
    r"tests/import_async\.14": "HandleRecvDone: the shape of what is received",
    r"tests/import\.0": "InferConvolveShape: a window of the kernel's size",
    r"tests/while\.0": "HandleBroadcast: equal sizes",
    r"tests/(layouts_and_names|math_next_after)\.1": "VerifyEntryComputationLayout: equal shapes",
}


def refused_by_xla(name, text):
    """What XLA says of a program that we do not read; nothing if it compiles it."""
    import jax
    from jax._src.lib import _jax, xla_client

    for pattern, check in REFUSED_BY_VERIFIER.items():
        if re.fullmatch(pattern, name):
            return f"its verifier refuses it, too: {check}"
    try:
        module = xla_client.hlo.hlo_module_from_text(re.sub(r"(?m)\A(\s*#.*\n)+", "", text))
        stablehlo = xla_client._xla.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
        devices = _jax.DeviceList(tuple(jax.devices()[:1]))
        jax.devices()[0].client.compile_and_load(stablehlo, devices, xla_client.CompileOptions())
    except Exception as error:
        about = " ".join(str(error).split())
        # These say what a CPU cannot do, not that the program is wrong.
        if not re.match(r"NOT_FOUND|UNIMPLEMENTED", about):
            return about[:200]
    return None


def size(text):
    shapes = re.findall(r"\b(?:pred|token|[a-z]+\d+[a-z0-9]*)\[([\d,]*)\]", text)
    return max((int(np.prod([int(d) for d in s.split(",") if d])) for s in shapes), default=0)


def judge(name, text, arguments):
    refused = parsed(text)
    if refused:
        return "not xla's", refused
    hlo = arguments.folder / f"{safe(name)}.hlo"
    hlo.write_text(text)
    read = [hlo, "--fill-elided", "0"]
    # A loop of many steps is long on the evaluator, and the time is bounded.
    run = [*read, "--steps", "1000000000"]
    failure = tegula(arguments, "compile", "--emit", "hlo", *read)
    if failure and (refused := failure[0] == "refused" and refused_by_xla(name, text)):
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
    for target in arguments.targets:
        command = ["run", *run, "--target", target]
        if reference is None:
            failure = tegula(arguments, *command, "--outputs", outputs)
            reference = None if failure else target
        else:
            failure = tegula(arguments, *command, "--check", outputs, "--scale-tol", "1e-2")
        if failure and failure[0] == "broken":
            about = f"{target}: {failure[1]}"
            return "broken", about if failure[1] != "no message" else f"{target} differs from {reference}"
        if failure:
            refusals.append(f"{target}: {failure[1]}")
    outputs.unlink(missing_ok=True)
    if len(refusals) == len(arguments.targets):
        hlo.unlink()
        return "read", refusals[0][:200]
    if refusals:
        return "refused", "; ".join(refusals)[:300]
    hlo.unlink()
    return "agrees", ""
