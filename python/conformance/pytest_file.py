"""One file of tests by pytest in a process of its own: what each test gave, and how the file ended."""

import subprocess
import sys
import time
import xml.etree.ElementTree


def run(file, *, cwd, environment, report, timeout, options=()):
    """Runs the tests of `file`, a path in the folder `cwd`.

    Writes pytest's report to `report` and what was printed beside it. Returns a dictionary: "end" is
    "ended", "crashed (CODE)", "took too long" or, where nothing could be collected, "did not start";
    "outcomes" has for each test that ended "passed", "failed", "skipped" or "xfailed"; "count" is how
    many tests there are; "seconds" by the wall clock.
    """
    report = report.resolve()
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, file]

    def pytest(*more, timeout):
        return subprocess.run(
            [*command, *more], cwd=cwd, env=environment, text=True, capture_output=True,
            timeout=timeout, errors="replace",
        )

    ended = "ended"
    start = time.monotonic()
    try:
        done = pytest("--tb=short", f"--junitxml={report}", timeout=timeout)
        report.with_suffix(".log").write_text(done.stdout + done.stderr)
        if done.returncode < 0 or done.returncode > 5:
            ended = f"crashed ({done.returncode})"
        elif done.returncode == 4 or (done.returncode == 2 and not report.exists()):
            ended = "did not start"
    except subprocess.TimeoutExpired:
        ended = "took too long"
    seconds = time.monotonic() - start
    outcomes = read_report(report) if report.exists() else {}
    count = len(outcomes)
    if ended != "ended":
        listed = pytest("--collect-only", timeout=300).stdout
        count = max(count, sum("::" in line for line in listed.splitlines()))
    return {"end": ended, "count": count, "outcomes": outcomes, "seconds": seconds}


def read_report(report):
    """The outcome of each test of a report in JUnit's form."""
    outcomes = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname').rsplit('.', 1)[-1]}.{case.get('name')}"
        kinds = {child.tag: child.get("type", "") for child in case}
        if "failure" in kinds or "error" in kinds:
            outcomes[name] = "failed"
        elif "skipped" in kinds:
            outcomes[name] = "xfailed" if "xfail" in kinds["skipped"] else "skipped"
        else:
            outcomes[name] = "passed"
    return outcomes
