"""What the simulator found and measured, as Python objects and as text."""

import dataclasses
import linecache
import os


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that is wrong with a kernel."""

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
    """How often it was met."""

    @property
    def place(self):
        """FILE:LINE, as far as it is known."""
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
    """How long it takes on the chip."""
    bound: str
    """What most of that time goes to."""
    fits: bool
    """Whether every memory has room for it; without, it has no values."""
    vmem_bytes: int
    copied_bytes: int
    devices: int
    lines: tuple
    """Seconds by line of the source: (file, line, what, seconds), the most first."""
    findings: tuple
    printed: tuple
    """What `pl.debug_print` printed: (core, file, line, text), in order."""
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
    """Each place once, with how often it was met."""
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
    """The report of a simulator."""
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
