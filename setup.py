"""Builds the Cython rooms; everything else about the package stands in pyproject.toml.

`make setup` installs with TIDELOG_COMPILE=later and then compiles in place, so that nothing is compiled twice and a change
of pyproject.toml compiles nothing at all.
"""

import os

from Cython.Build import cythonize
from setuptools import Extension, setup

MODULES = Extension(
    "*",
    ["src/tidelog/**/*.pyx"],
    include_dirs=["src/tidelog/base"],
    extra_compile_args=["-O3", "-fno-plt", "-Wno-unused-function", "-Wno-sign-compare"],
)
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "binding": True,
    "freethreading_compatible": False,
}


def modules() -> list[Extension]:
    if os.environ.get("TIDELOG_COMPILE") == "later":
        return []
    return cythonize([MODULES], compiler_directives=DIRECTIVES, build_dir="build/cython", nthreads=2)


setup(ext_modules=modules())
