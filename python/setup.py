"""Builds the plug-in and the command line with cargo and puts them into the package.

CARGO_TARGET_DIR is honoured. TEGULA_CARGO_PROFILE chooses another profile than release;
TEGULA_LIBRARY names a library that is built already, TEGULA_BINARY a command line.
"""

import os
import pathlib
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

# Setuptools brings this module.
from distutils.command.build_scripts import build_scripts

COMMAND = "tegula"
NAME = "libtegula_pjrt.so"
REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def built(package, name, given):
    """The path of what a cargo package builds; builds it unless a file is given."""
    if os.environ.get(given):
        return pathlib.Path(os.environ[given])
    profile = os.environ.get("TEGULA_CARGO_PROFILE", "release")
    # Together, so that what both stand on is built once: with the features of both.
    named = {"TEGULA_LIBRARY": "tegula-pjrt", "TEGULA_BINARY": "tegula-cli"}
    packages = {package} | {p for variable, p in named.items() if not os.environ.get(variable)}
    command = ["cargo", "build", "--locked", "--profile", profile]
    command += [word for package in sorted(packages) for word in ("-p", package)]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    folder = {"dev": "debug", "test": "debug"}.get(profile, profile)
    return target / folder / name


class BuildWithCargo(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:
            place = pathlib.Path(self.build_lib) / "jax_plugins" / "tegula"
        else:
            place = pathlib.Path(__file__).resolve().parent / "src" / "jax_plugins" / "tegula"
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(built("tegula-pjrt", NAME, "TEGULA_LIBRARY"), place / NAME)


class CommandLine(build_scripts):
    """The command line is a program of the package, and no script of Python."""

    def get_source_files(self):
        return []

    def run(self):
        self.mkpath(self.build_dir)
        place = pathlib.Path(self.build_dir) / COMMAND
        shutil.copyfile(built("tegula-cli", COMMAND, "TEGULA_BINARY"), place)
        place.chmod(0o755)


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


COMMANDS = {
    "build_py": BuildWithCargo,
    "build_scripts": CommandLine,
    "bdist_wheel": wheel_command(),
}
setup(distclass=Binary, cmdclass=COMMANDS, scripts=[COMMAND])
