"""What other simplifiers make of the maps in crates/indexing/tests/data/hard_maps.json.

    python scripts/hard_maps.py          # writes the member `others` of each map
    python scripts/hard_maps.py --table  # prints who leaves how many divisions

Needs apache-tvm, sympy and jaxlib (for MLIR's affine expressions); what is not installed is left as
it is in the file. Each simplifier gets what it can use: TVM's analyzer the bounds and the
constraints, SymPy and MLIR neither. A form is `wrong` if it differs from the map at a point of the
domain, `longer` if it divides more often than the simplest form that is known, else `simplest`.
"""

import itertools
import json
import pathlib
import random
import re
import sys

FILE = pathlib.Path(__file__).parent.parent / "crates/indexing/tests/data/hard_maps.json"
POINTS = 20000


def spelled(text):
    """A term as Python writes it."""
    text = text.replace("floordiv", "//").replace(" mod ", " % ")
    return re.sub(r"(?<!/)/(?!/)", "//", text)


def split(text):
    """Variables with bounds, results, constraints of a map's text."""
    head, domain = text.split(", domain: ")
    results = head.split(" -> ", 1)[1][1:-1]
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(results):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(results[start:at])
            start = at + 1
    parts.append(results[start:])
    bounds, constraints = {}, []
    for term, low, high in re.findall(r"([^,\[\]]+?) in \[(-?\d+), (-?\d+)\]", domain):
        term = term.strip()
        if re.fullmatch(r"[ds]\d+", term):
            bounds[term] = (int(low), int(high))
        else:
            constraints.append((spelled(term), int(low), int(high)))
    return bounds, [spelled(part.strip()) for part in parts], constraints


def divisions(text):
    return len(re.findall(r"//|%|floor\(|Mod\(|floordiv|mod", text))


def points(bounds, constraints):
    names = list(bounds)
    count = 1
    for low, high in bounds.values():
        count *= high - low + 1
    draw = random.Random(1)
    if count <= POINTS:
        every = itertools.product(*(range(low, high + 1) for low, high in bounds.values()))
    else:
        every = (tuple(draw.randint(low, high) for low, high in bounds.values()) for _ in range(POINTS))
    for point in every:
        env = dict(zip(names, point))
        if all(low <= eval(term, {}, env) <= high for term, low, high in constraints):
            yield env


def verdict(entry, forms, evaluate):
    bounds, results, constraints = split(entry["map"])
    for env in points(bounds, constraints):
        for form, result in zip(forms, results):
            if evaluate(form, env) != eval(result, {}, env):
                return "wrong"
    simplest = entry.get("simplest", "")
    known = 0 if simplest == "empty" else sum(map(divisions, split(simplest)[1]))
    if simplest == "empty":
        return "longer"
    own = sum(divisions(form) for form in forms)
    return "longer" if own > known else "simplest"


def in_python(form, env):
    return eval(form, {}, env)


def tvm_forms(entry):
    import tvm
    from tvm import tirx
    from tvm.sym import analyzer

    bounds, results, constraints = split(entry["map"])
    own = analyzer.Analyzer()
    variables = {name: tirx.Var(name, "int64") for name in bounds}
    for name, (low, high) in bounds.items():
        extent = tirx.IntImm("int64", high - low + 1)
        own.bind(variables[name], tvm.ir.Range.from_min_extent(tirx.IntImm("int64", low), extent))
    known = tirx.const(True)
    for term, low, high in constraints:
        value = eval(term, {}, variables)
        known = tirx.all(known, value >= low, value <= high)
    with own.constraint_scope(known):
        found = [str(own.simplify(eval(result, {}, variables))) for result in results]
    clean = lambda form: re.sub(r"T\.int64\((-?\d+)\)", r"\1", form)
    return [clean(form) for form in found], in_python


def sympy_forms(entry):
    import sympy

    bounds, results, _ = split(entry["map"])

    class Term:
        def __init__(self, value):
            self.value = value

        def __floordiv__(self, other):
            return Term(sympy.floor(self.value / other))

        def __mod__(self, other):
            return Term(sympy.Mod(self.value, other))

        def __add__(self, other):
            return Term(self.value + getattr(other, "value", other))

        __radd__ = __add__

        def __sub__(self, other):
            return Term(self.value - getattr(other, "value", other))

        def __mul__(self, other):
            return Term(self.value * other)

        def __neg__(self):
            return Term(-self.value)

    variables = {name: Term(sympy.Symbol(name, integer=True)) for name in bounds}
    found = [eval(result, {}, variables) for result in results]
    found = [sympy.simplify(getattr(value, "value", value)) for value in found]

    def evaluate(form, env):
        return int(sympy.sympify(form, locals={name: sympy.Integer(env[name]) for name in env}))

    return [str(value) for value in found], evaluate


def mlir_forms(entry):
    from jaxlib.mlir import ir

    bounds, results, _ = split(entry["map"])

    class Term:
        def __init__(self, value):
            self.value = value

        def __floordiv__(self, other):
            return Term(ir.AffineExpr.get_floor_div(self.value, other))

        def __mod__(self, other):
            return Term(ir.AffineExpr.get_mod(self.value, other))

        def __add__(self, other):
            return Term(ir.AffineExpr.get_add(self.value, getattr(other, "value", other)))

        __radd__ = __add__

        def __neg__(self):
            return self * -1

        def __sub__(self, other):
            return self + (-other if isinstance(other, Term) else -other)

        def __mul__(self, other):
            return Term(ir.AffineExpr.get_mul(self.value, other))

    with ir.Context():
        names = list(bounds)
        variables = {name: Term(ir.AffineExpr.get_dim(at)) for at, name in enumerate(names)}
        found = [eval(result, {}, variables) for result in results]
        forms = [ir.AffineExpr.simplify_affine_expr(value.value, len(names), 0) for value in found]
        texts = [str(form) for form in forms]
    for at in reversed(range(len(names))):
        texts = [re.sub(rf"\bd{at}\b", f"@{at}@", text) for text in texts]
    for at, name in enumerate(names):
        texts = [text.replace(f"@{at}@", name) for text in texts]
    return texts, lambda form, env: eval(spelled(form), {}, env)


def version(module):
    from importlib.metadata import version

    return version(module)


SIMPLIFIERS = [
    ("TVM", "apache-tvm", tvm_forms),
    ("SymPy", "sympy", sympy_forms),
    ("MLIR", "jaxlib", mlir_forms),
]


def main():
    corpus = json.loads(FILE.read_text())
    if "--table" not in sys.argv:
        for name, package, forms in SIMPLIFIERS:
            try:
                who = f"{name} ({package} {version(package)})"
            except Exception:
                continue
            for entry in corpus["maps"]:
                found, evaluate = forms(entry)
                own = {"who": who, "form": ", ".join(found), "verdict": verdict(entry, found, evaluate)}
                others = [other for other in entry.get("others", []) if not other["who"].startswith(name)]
                entry["others"] = others + [own]
        FILE.write_text(json.dumps(corpus, indent=2, ensure_ascii=False) + "\n")
    table = {}
    for entry in corpus["maps"]:
        for other in entry.get("others", []):
            table.setdefault(other["who"], {}).setdefault(other["verdict"], 0)
            table[other["who"]][other["verdict"]] += 1
    for who, counts in table.items():
        print(who, counts)


if __name__ == "__main__":
    main()
