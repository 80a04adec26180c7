"""Builds the plug-in with cargo and puts it into the package.

CARGO_TARGET_DIR is honoured. TEGULA_CARGO_PROFILE chooses another profile than release;
TEGULA_LIBRARY names a library that is built already.
"""

import os
import pathlib
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

NAME = "libtegula_pjrt.so"
REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def library():
    """The plug-in's path; builds it unless one is named."""
    given = os.environ.get("TEGULA_LIBRARY")
    if given:
        return pathlib.Path(given)
    profile = os.environ.get("TEGULA_CARGO_PROFILE", "release")
    command = ["cargo", "build", "--locked", "-p", "tegula-pjrt", "--profile", profile]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    folder = {"dev": "debug", "test": "debug"}.get(profile, profile)
    return target / folder / NAME


class BuildWithCargo(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:
            place = pathlib.Path(self.build_lib) / "jax_plugins" / "tegula"
        else:
            place = pathlib.Path(__file__).resolve().parent / "src" / "jax_plugins" / "tegula"
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library(), place / NAME)


class Binary(Distribution):
    """One with a library for this machine, which fits every version of Python."""

    def has_ext_modules(self):
        return True


def wheel_command():
    from setuptools.command.bdist_wheel import bdist_wheel

    class AnyPython(bdist_wheel):
        def get_tag(self):
            return ("py3", "none", super().get_tag()[2])

    return AnyPython


setup(distclass=Binary, cmdclass={"build_py": BuildWithCargo, "bdist_wheel": wheel_command()})
