"""JAX's own tests of several processes (`tests/multiprocess`) through the plug-in.

    python python/conformance/process_tests.py FOLDER --jax-source DIR [--processes 4] [--only REGEX]

DIR is a checkout of the tag of the installed jax; `absl-py` and `portpicker` are needed. FOLDER keeps what the
processes print. A file passes if each of its processes ends with exit code 0; the exit code is 1 if one does not.
`TEGULA_SLOT=off` runs XLA's own client.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

# They need XLA's profiles of collectives, or a TPU.
LEFT_OUT = {"pgle_test.py", "tpu_device_test.py"}
RAN = re.compile(r"Ran (\d+) tests? in ([\d.]+)s; (.*)")


def run(file, arguments):
    """Whether all processes of a file pass, and what the first one says."""
    folder = (arguments.folder / file.stem).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        "JAX_PLATFORMS": "cpu", **os.environ, "TEST_UNDECLARED_OUTPUTS_DIR": str(folder),
    }
    command = [
        sys.executable, file.name, f"--num_processes={arguments.processes}",
        "--heartbeat_timeout=60", "--barrier_timeout=120", "--initialization_timeout=60",
    ]
    log = folder / "log"
    with log.open("w") as output:
        try:
            code = subprocess.run(
                command, cwd=file.parent, env=environment, stdout=output,
                stderr=subprocess.STDOUT, timeout=arguments.timeout,
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
    ran = RAN.search(log.read_text(errors="replace"))
    if code is None:
        said = f"took more than {arguments.timeout:g} s"
    else:
        said = f"{ran[1]} tests, {ran[2]} s, {ran[3]}" if ran else f"exit code {code}"
    return code == 0, said


def main():
    parser = argparse.ArgumentParser(description="JAX's own tests of several processes")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--jax-source", type=pathlib.Path, required=True)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--only", metavar="REGEX", default="", help="files whose names match")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a file")
    arguments = parser.parse_args()
    files = sorted((arguments.jax_source / "tests" / "multiprocess").glob("*_test.py"))
    failed = 0
    for file in files:
        if file.name in LEFT_OUT or not re.search(arguments.only, file.name):
            continue
        start = time.monotonic()
        passes, said = run(file, arguments)
        failed += not passes
        verdict = "passes" if passes else "FAILS"
        print(f"{file.name}: {verdict}, {said}, {time.monotonic() - start:.0f} s in all", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
