"""Builds the Cython rooms; everything else about the package stands in pyproject.toml."""

from Cython.Build import cythonize
from setuptools import Extension, setup

setup(
    ext_modules=cythonize(
        [Extension("*", ["src/tidelog/**/*.pyx"], include_dirs=["src/tidelog/base"], extra_compile_args=["-O3", "-fno-plt", "-Wno-unused-function"])],
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "binding": True,
            "freethreading_compatible": False,
        },
        build_dir="build/cython",
        nthreads=2,
    )
)
