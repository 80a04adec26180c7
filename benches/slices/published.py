"""Simulated steps beside published ones: those that parameters were fitted on, and those held out.

    python published.py [--tegula PATH] [--most PERCENT] [--fit CHIP]

Lowers the programs of `published.json` with JAX, simulates each with `tegula simulate`, and prints the
error of every step, with the mean of both groups. `--most` fails if that of those held out is larger. `--fit` searches the chip's three parameters for the
least error of the runs that are marked `fitted`, and changes nothing.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import maxtext

HERE = pathlib.Path(__file__).resolve().parent


def config_of(run):
    return maxtext.Config(**{k: run[k] for k in ("scale", "chips", "batch", "tensor", "remat")})


def programs(runs, folder):
    for number, run in enumerate(runs):
        path = folder / f"{number}.mlir"
        path.write_text(maxtext.lowered(config_of(run)), encoding="utf-8")
        run["path"] = path


def simulated(tegula, run, parameters):
    command = [tegula, "simulate", str(run["path"]), "--chip", run["chip"], "--topology", run["topology"], "--json"]
    command += ["--model-flops", str(config_of(run).model_flops * run["chips"])]
    for name, value in parameters.items():
        command += ["--set", f"{name}={value}"]
    # A program that does not fit is a finding, and has a time all the same.
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def published(run):
    return config_of(run).model_flops / (run["tflops"] * 1e12)


def errors(tegula, runs, parameters):
    return [simulated(tegula, run, parameters)["seconds"] / published(run) - 1 for run in runs]


def fit(tegula, runs, chip):
    runs = [run for run in runs if run["chip"] == chip and run["fitted"]]
    best = None
    grid = itertools.product(
        (0.75, 0.8, 0.85, 0.9, 0.95, 1.0), (0.7, 0.8, 0.9), (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    for product, hbm, overlap in grid:
        parameters = {
            "product_efficiency": product, "hbm_efficiency": hbm, "collective_overlap": overlap,
        }  # fmt: skip
        found = errors(tegula, runs, parameters)
        total = sum(error * error for error in found)
        if best is None or total < best[0]:
            best = (total, parameters, found)
            print(f"{parameters}: {', '.join(f'{100 * e:+.1f} %' for e in found)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tegula", default="tegula")
    parser.add_argument("--fit", metavar="CHIP")
    parser.add_argument("--most", type=float, metavar="PERCENT")
    args = parser.parse_args()
    runs = json.loads((HERE / "published.json").read_text())["runs"]
    with tempfile.TemporaryDirectory() as folder:
        programs(runs, pathlib.Path(folder))
        if args.fit:
            fit(args.tegula, runs, args.fit)
            return
        print("| step | | published s | simulated s | error | MFU published | simulated | bound by |")
        print("|---|---|---|---|---|---|---|---|")
        by_kind = {True: [], False: []}
        peaks = {"v5e": 197e12, "v5p": 459e12}
        for run in runs:
            found = simulated(args.tegula, run, {})
            error = found["seconds"] / published(run) - 1
            by_kind[run["fitted"]].append(abs(error))
            kind = "fitted" if run["fitted"] else "held out"
            mfu = run["tflops"] * 1e12 / peaks[run["chip"]]
            print(
                f"| {run['name']} | {kind} | {published(run):.2f} | {found['seconds']:.2f} | {100 * error:+.1f} % "
                f"| {100 * mfu:.1f} % | {100 * found['mfu']:.1f} % | {found['bound_by']} |"
            )
        for fitted, name in ((True, "fitted"), (False, "held out")):
            found = by_kind[fitted]
            print(f"{name}: {100 * sum(found) / len(found):.1f} % in the mean, {100 * max(found):.1f} % at most")
        held_out = 100 * sum(by_kind[False]) / len(by_kind[False])
        if args.most is not None and held_out > args.most:
            sys.exit(f"steps that were held out are {held_out:.1f} % off in the mean")


if __name__ == "__main__":
    main()
