"""Explains how Tegula compiles a JAX function, using the package's command-line program."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import webbrowser


def _command():
    """The command `tegula`: TEGULA_COMMAND, else the package's own, else the one on the path."""
    named = os.environ.get("TEGULA_COMMAND")
    if named:
        if shutil.which(named) is None:
            raise FileNotFoundError(f"TEGULA_COMMAND is {named!r}, which is no command")
        return named
    scripts = [sysconfig.get_path("scripts"), str(pathlib.Path(sys.executable).parent)]
    found = shutil.which("tegula", path=os.pathsep.join(scripts)) or shutil.which("tegula")
    if found is None:
        raise FileNotFoundError(
            "the command `tegula` was not found: it comes with the package tegula-jax; "
            "TEGULA_COMMAND names another place"
        )
    return found


def _run(arguments, program):
    done = subprocess.run([_command(), *arguments], input=program, capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip())
    return done.stdout.decode()


class Explanation:
    """How Tegula compiles a program. `print` shows which operations are fused, and why."""

    def __init__(self, program):
        #: The program as StableHLO text, with places in the Python source.
        self.program = program

    def _print(self, form):
        return _run(["compile", "-", "--emit", form], self.program.encode())

    @property
    def fused(self):
        """Which operations are fused, and why."""
        return self._print("fused")

    @property
    def plan(self):
        """Kernels, buffers and the schedule, as text."""
        return self._print("plan")

    def maps(self, operation=None):
        """Which elements each operation reads, as text; of one operation if it is named."""
        only = [] if operation is None else ["--instruction", operation]
        return _run(["index", "-", *only], self.program.encode())

    def save(self, path):
        """Writes a page for any browser: fusion, maps, layouts, code, memory and time."""
        _run(["explore", "-", "-o", str(path)], self.program.encode())
        return pathlib.Path(path)

    def open(self):
        """Shows the page in a browser; returns its file."""
        folder = tempfile.mkdtemp(prefix="tegula-")
        page = self.save(pathlib.Path(folder) / "program.html")
        webbrowser.open(page.as_uri())
        return page

    def __str__(self):
        return self.fused

    def _repr_html_(self):
        """The page in a cell of a notebook."""
        from html import escape

        with tempfile.TemporaryDirectory() as folder:
            page = self.save(pathlib.Path(folder) / "program.html").read_text()
        return (
            f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: 720px; border: 0"></iframe>'
        )


def explain(f, *args, **kwargs):
    """Returns an `Explanation` of how Tegula compiles `f(*args, **kwargs)`.

    `f` may be jitted. Nothing is run; arguments may be `jax.ShapeDtypeStruct`.

        print(tegula.jax.explain(model, x))                 # which operations are fused, and why
        tegula.jax.explain(model, x).save("model.html")     # a page
    """
    import jax

    lowered = (f if hasattr(f, "lower") else jax.jit(f)).lower(*args, **kwargs)
    return Explanation(lowered.as_text(debug_info=True))
