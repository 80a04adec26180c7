"""Kills a rank of an MPI job at a random moment: every job must end, and none may write results.

    python faults.py [--runs 100] [--seed 0] [--tegula PATH] [--mpirun PATH ...] [--stop] [--strict]

Each run starts four ranks of a program that exchanges in a loop, kills one of them after a random time
(some die while they start, some while they leave), and checks that the job ended within the time-out,
with an exit status that is not 0 and without a file of results, and that its output names the rank. A
job that was over before its rank was killed is counted apart, and so is one that names another rank: over
MPICH, a rank that reads the memory of one that was killed is ended by the transport (UCX), and the launcher
may end the job before the killed one is reported. `--strict` makes that a failure, too. `--stop` stops the rank instead
(SIGSTOP): the others' time-out must name it.
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

RANKS = 4
NOT_NAMED = "not named:"
TIMEOUT = 3.0
# The maximum time from the kill to the end of the job: the time-out plus the launcher's time.
MOST = TIMEOUT + 15.0

PROGRAM = """HloModule faults, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

body {
  s = (s32[], f32[4096]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[4096]{0} get-tuple-element(s), index=1
  sum = f32[4096]{0} all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
  quarter = f32[] constant(0.25)
  q = f32[4096]{0} broadcast(quarter), dimensions={}
  mean = f32[4096]{0} multiply(sum, q)
  turned = f32[4096]{0} collective-permute(mean), channel_id=2, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  ROOT out = (s32[], f32[4096]{0}) tuple(next, turned)
}

condition {
  s = (s32[], f32[4096]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  many = s32[] constant(TRIPS)
  ROOT go = pred[] compare(i, many), direction=LT
}

ENTRY e {
  x = f32[4096]{0} parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[4096]{0}) tuple(zero, x)
  loop = (s32[], f32[4096]{0}) while(init), condition=condition, body=body
  ROOT r = f32[4096]{0} get-tuple-element(loop), index=1
}
"""


def launchers(stated):
    found = {}
    for path in stated or ["mpirun.openmpi", "mpirun.mpich", "mpirun"]:
        try:
            text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        except FileNotFoundError:
            continue
        kind = "Open MPI" if "open mpi" in text.lower() or "open-mpi" in text.lower() else "MPICH"
        found.setdefault(kind, path)
    return found


def start(kind, path, tegula, program, results):
    command = [path, "-n", str(RANKS)]
    environment = dict(os.environ)
    if kind == "Open MPI":
        command += ["--oversubscribe", "--allow-run-as-root"]
        environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
        environment["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"
    command += [tegula, "run", str(program), "--mpi", "--wait", str(TIMEOUT), "--outputs", str(results)]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def ranks_of(program):
    """The processes of ranks, by rank: two of each over MPICH (crates/tegula-cli: run/supervised.rs)."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            line = (folder / "cmdline").read_bytes().split(b"\0")
            if b"--mpi" not in line or b"-n" in line or str(program).encode() not in line:
                continue
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for variable in environment:
            name, _, value = variable.partition(b"=")
            if name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK"):
                found.setdefault(int(value), []).append(int(folder.name))
    return found


def one(kind, path, tegula, program, results, chance, stop):
    """The error of one job, or None; and whether it had ended before the kill."""
    job = start(kind, path, tegula, program, results)
    victim = chance.randrange(RANKS)
    pid, began = None, time.monotonic()
    while job.poll() is None and time.monotonic() < began + 30:
        if ranks_of(program).get(victim):
            break
        time.sleep(0.005)
    time.sleep(chance.random() * 1.5)
    killed = time.monotonic()
    pids = sorted(ranks_of(program).get(victim, []))
    if pids:
        # The process to stop is the rank itself, the younger of the two.
        pid = pids[-1] if stop else chance.choice(pids)
    gone = pid is None
    if pid is not None:
        try:
            os.kill(pid, signal.SIGSTOP if stop else signal.SIGKILL)
        except ProcessLookupError:
            gone = True
    try:
        output, _ = job.communicate(timeout=MOST + (TIMEOUT if stop else 0))
    except subprocess.TimeoutExpired:
        job.kill()
        for processes in ranks_of(program).values():
            for process in processes:
                os.kill(process, signal.SIGKILL)
        job.communicate()
        return f"rank {victim}: the job does not end", False
    finally:
        if stop and pid is not None and not gone:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    took = time.monotonic() - killed
    has_results = results.exists()
    results.unlink(missing_ok=True)
    if job.returncode == 0 and has_results:
        return None, True
    if job.returncode == 0:
        return f"rank {victim}: exit status 0 without results\n{output}", False
    if has_results:
        # The rank had left the job, with all others, when it was killed.
        return (None, True) if "ran:" in output else (f"rank {victim}: results of a lost job\n{output}", False)
    if gone:
        return None, True
    names = [f"rank {victim}", f"device {victim}"]
    if not any(name in output for name in names):
        return f"{NOT_NAMED} rank {victim} (process {pid})\n{output}", False
    if took > MOST:
        return f"rank {victim}: {took:.1f} s", False
    return None, gone


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tegula", default="tegula")
    parser.add_argument("--mpirun", action="append")
    parser.add_argument("--stop", action="store_true")
    parser.add_argument("--strict", action="store_true")
    args = parser.parse_args()
    found = launchers(args.mpirun)
    if not found:
        print("no mpirun of Open MPI or MPICH is installed: nothing is run")
        return
    wrong = 0
    for kind, path in found.items():
        chance = random.Random(args.seed)
        over = unnamed = 0
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "faults.hlo"
            results = pathlib.Path(folder) / "results.npz"
            program.write_text(PROGRAM.replace("TRIPS", "1500"))
            for number in range(args.runs):
                problem, was_over = one(kind, path, args.tegula, program, results, chance, args.stop)
                over += was_over
                if problem:
                    is_unnamed = problem.startswith(NOT_NAMED)
                    unnamed += is_unnamed
                    wrong += args.strict or not is_unnamed
                    print(f"{kind}, run {number}: {problem}", flush=True)
        print(
            f"{kind}: {args.runs} runs, {over} of them over before the rank was lost, "
            f"{unnamed} named another rank, {wrong} not as they must be"
        )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
