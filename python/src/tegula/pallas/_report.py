"""The simulator's findings and measurements, as Python objects and as text."""

import dataclasses
import linecache
import os


@dataclasses.dataclass(frozen=True)
class Finding:
    """An error or a warning about a kernel."""

    code: str
    """The stable code, such as TG040; docs/tpu-kernels.md lists them."""
    severity: str
    """`error` or `warning`."""
    message: str
    help: str
    file: str
    """The Python file; empty if it is not known."""
    line: int
    """The line in it; 0 if it is not known."""
    instruction: str
    """The statement of the lowered kernel."""
    kernel: str
    count: int
    """The number of times that it was found."""

    @property
    def place(self):
        """`FILE:LINE`, or what is known of it; otherwise the kernel's name."""
        return f"{self.file}:{self.line}" if self.line else self.file or self.kernel

    def __str__(self):
        times = f" ({self.count} times)" if self.count > 1 else ""
        lines = [f"{self.place}: {self.severity} {self.code}: {self.message}{times}"]
        source = linecache.getline(self.file, self.line).strip() if self.line else ""
        if source:
            lines.append(f"    {source}")
        if self.help:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a kernel."""

    kernel: str
    seconds: float
    """The time on the chip, in seconds."""
    bound: str
    """The cause of most of that time."""
    fits: bool
    """Whether the kernel fits in every memory; if not, no values are computed."""
    vmem_bytes: int
    copied_bytes: int
    devices: int
    lines: tuple
    """The time of each source line: (file, line, statement, seconds), longest first."""
    findings: tuple
    printed: tuple
    """The texts that `pl.debug_print` printed: (core, file, line, text), in order."""
    raw: dict = dataclasses.field(repr=False, compare=False)
    """The whole report, as `tegula simulate --json` prints it."""

    @classmethod
    def of(cls, report, devices):
        kernel = report["kernel"]
        fields = ("code", "severity", "message", "help", "line", "instruction", "count")
        findings = tuple(
            Finding(kernel=kernel, file=found.get("file", ""), **{name: found[name] for name in fields})
            for found in report["findings"]
        )
        lines = tuple((at["file"], at["line"], at["what"], at["seconds"]) for at in report["lines"])
        printed = tuple(
            (at["core"], at["file"], at["line"], at["text"]) for at in report.get("printed", ())
        )
        return cls(
            kernel=kernel, seconds=report["seconds"], bound=report["bound"], fits=report["fits"],
            vmem_bytes=report["vmem_peak_bytes"], copied_bytes=report["copied_bytes"],
            devices=devices, lines=lines, findings=findings, printed=printed,
            raw=report,
        )


def merged(findings):
    """Merges equal findings, and adds up their counts."""
    counts = {}
    for found in findings:
        key = (found.code, found.file, found.line, found.kernel, found.message)
        first, count = counts.get(key, (found, 0))
        counts[key] = (first, count + found.count)
    return [dataclasses.replace(found, count=count) for found, count in counts.values()]


def seconds_text(seconds):
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def bytes_text(count):
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"


def text(chip, runs, findings):
    """The text of a simulator's report."""
    kernels = {}
    for run in runs:
        kernels.setdefault((run.kernel, run.devices), []).append(run)
    found = {0: "no findings", 1: "1 finding"}.get(len(findings), f"{len(findings)} findings")
    lines = [f"{len(runs)} runs of {len(kernels)} kernels on a simulated {chip}: {found}"]
    for (name, devices), own in kernels.items():
        total = sum(run.seconds for run in own)
        last = own[-1]
        on = f" on {devices} devices" if devices > 1 else ""
        lines.append(
            f"  {name}{on}: {len(own)} runs, {seconds_text(total / len(own))} each, bound by"
            f" {last.bound}, {bytes_text(last.vmem_bytes)} of VMEM,"
            f" {bytes_text(last.copied_bytes)} copied"
        )
        for file, line, what, seconds in last.lines[:3]:
            place = f"{os.path.basename(file)}:{line}" if line else "the kernel"
            lines.append(f"    {seconds_text(seconds):>8}  {what} at {place}")
    lines.extend(str(found) for found in findings)
    for run in runs:
        for core, file, line, said in run.printed:
            on = f", core {core}" if run.devices > 1 else ""
            lines.append(f"{os.path.basename(file)}:{line}{on} prints: {said}")
    return "\n".join(lines)
