"""Programs of JAX libraries: those that the cliff finder times (benches/peers/cliffs/generate.py),
in `f32` and, as `x64/NAME`, with 64-bit types on.

Some of them are chaotic or ill-conditioned: a sampler accepts or rejects a step, an iteration ends
earlier, nearly equal numbers are subtracted. If a result differs from XLA's, XLA's own sensitivity
is measured: it runs on inputs that differ by a unit in the last place and, for `f32`, with 64-bit
types. If our difference is within a few times XLA's own, the outcome is `chaotic`, not `differs`.
"""

import importlib.util
import pathlib
import sys
import warnings

import jax
import numpy as np

import judged
from harnesses import arrays, hlo_text, safe, stored
from run import ROOT, tegula

sys.path.insert(0, str(ROOT / "benches/peers/cliffs"))
import generate

warnings.filterwarnings("ignore")
jax.config.update("jax_enable_x64", False)
WIDE = "x64/"
# The number of XLA's runs on changed inputs, and the maximum ratio of our difference to its own.
# What is chaotic multiplies errors, and both programs differ from the exact one by errors of the same
# size, not by the same ones. XLA's own movement is the largest of eight draws of errors at one place,
# the inputs; ours come from every operation in between. The largest of a few draws of a normal
# distribution is within a factor of 2 of that of a few hundred (1.4 to 2.9 standard deviations), and
# two results that are both off are apart by twice what one is: 4 together. Something wrong is not
# found by this where errors grow as far as the results themselves; it is by the programs that are not
# chaotic, and these are listed with both figures.
PERTURBED_RUNS, FURTHER = 8, 4
SAME_FUNCTION = 1e-2


def programs(arguments):
    """The programs by name, without families whose packages are not installed."""
    found = {}
    for prefix, is_wide in (("", False), (WIDE, True)):
        with jax.enable_x64(is_wide):
            for name in generate.families():
                family = generate.family(name)
                missing = [p for p in family.NEEDS if importlib.util.find_spec(p) is None]
                if missing:
                    print(f"left out: {name}: not installed: {', '.join(missing)}", file=sys.stderr)
                    continue
                made = family.programs()
                found |= {prefix + program: parts for program, parts in made.items()}
    return found


def given(inputs, is_wide):
    """The inputs; as `f64` if 64-bit types are on."""
    inputs = [np.asarray(x) for x in inputs]
    return [x.astype(np.float64) if is_wide and x.dtype == np.float32 else x for x in inputs]


def moved(inputs, seed):
    """Inputs whose floating-point numbers are changed by a unit in the last place."""
    r = np.random.RandomState(seed)
    up = lambda x: np.where(r.rand(*x.shape) < 0.5, np.nextafter(x, np.inf), np.nextafter(x, -np.inf))
    return [up(x).astype(x.dtype) if x.dtype.kind == "f" else x for x in inputs]


def distance(expected, found):
    """The distance of results relative to the largest number; infinity if only one side has a
    NaN or an infinity, or if integers differ."""
    worst = 0.0
    for x, y in zip(expected, found):
        if x.shape != y.shape or x.dtype != y.dtype:
            return np.inf
        if judged.precision(x.dtype) is None:
            worst = max(worst, 0.0 if np.array_equal(x, y) else np.inf)
            continue
        x, y = judged.wide(x), judged.wide(y)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        if np.any(~same & ~(np.isfinite(x) & np.isfinite(y))):
            return np.inf
        scale = np.max(np.abs(x[np.isfinite(x)]), initial=0) or 1.0
        worst = max(worst, np.max(np.abs(np.where(same, 0, x - y)), initial=0) / scale)
    return worst


def exact(function, inputs, expected):
    """The rounded results with 64-bit types on; None if their shapes or kinds of types differ."""
    with jax.enable_x64(True):
        try:
            results = arrays(jax.jit(function, keep_unused=True)(*given(inputs, True)))
        except Exception:
            return None
    if [(x.shape, x.dtype.kind) for x in results] != [(x.shape, x.dtype.kind) for x in expected]:
        return None
    return [x.astype(e.dtype) for x, e in zip(results, expected)]


def own_distance(function, compiled, inputs, expected):
    """The largest distance of XLA's results to its own on changed inputs or in 64 bits."""
    others = [arrays(compiled(*moved(inputs, seed))) for seed in range(PERTURBED_RUNS)]
    moves = [distance(expected, other) for other in others]
    if (results := exact(function, inputs, expected)) is not None:
        error = distance(expected, results)
        # A larger distance means another function: 64-bit random numbers are drawn from other bits.
        moves.append(error if error < SAME_FUNCTION else 0.0)
    return max(moves)


def compared(function, compiled, inputs, expected, found):
    """The outcome for results, and a message about it."""
    wrong = [judged.apart(e, f, judged.UNITS) for e, f in zip(expected, found)]
    at = next((i for i, w in enumerate(wrong) if w), None)
    if at is None:
        return "agrees", ""
    about, ours = f"result {at}: {wrong[at]}", distance(expected, found)
    own = own_distance(function, compiled, inputs, expected)
    if own > 0 and (ours <= FURTHER * own or own == np.inf):
        return "chaotic", f"{about}; XLA's own results differ by {own:.2g} of the largest, ours by {ours:.2g}"
    return "differs", f"{about}; XLA's own results differ by {own:.2g} of the largest"


def judge(name, parts, arguments):
    is_wide = name.startswith(WIDE)
    with jax.enable_x64(is_wide):
        function, *inputs = parts
        inputs = given(inputs, is_wide)
        try:
            lowered = jax.jit(function, keep_unused=True).lower(*inputs)
            text = hlo_text(lowered)
            compiled = lowered.compile()
            expected = arrays(compiled(*inputs))
        except Exception as error:
            return "not xla's", " ".join(str(error).split())[:200]
        if "xla_ffi_python" in text:
            return "not xla's", "it calls a Python function, which only its own process has"
        stem = arguments.folder / safe(name)
        program, given_file, found_file = (
            stem.with_name(stem.name + end) for end in (".hlo", ".npz", ".out.npz")
        )
        program.write_text(text)
        np.savez(given_file, **{f"in{i}": stored(x) for i, x in enumerate(inputs)})
        failure = tegula(arguments, "run", program, "--inputs", given_file, "--outputs", found_file)
        if failure:
            return failure
        with np.load(found_file) as npz:
            found = [npz[f"out{i}"] for i in range(len(expected))]
        found = [f if f.dtype == e.dtype else f.view(e.dtype) for f, e in zip(found, expected)]
        outcome = compared(function, compiled, inputs, expected, found)
        if outcome[0] != "differs":
            for file in (program, given_file, found_file):
                pathlib.Path(file).unlink()
        return outcome
