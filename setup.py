"""The native search engine and the native copies, built when the machine has a C compiler.

Everything else about the package is in pyproject.toml. `optional` lets an installation without
a compiler succeed: `pdproto check` then says so and runs its portable engine, and pages are copied
by numpy, with the same answers and more slowly.
"""

from setuptools import Extension, setup

NATIVE = "pdproto/check/native"

setup(
    ext_modules=[
        Extension(
            "pdproto.check.native._search",
            sources=[f"{NATIVE}/search.c", f"{NATIVE}/kernel_avx2.c"],
            depends=[f"{NATIVE}/search.h", f"{NATIVE}/kernel.h"],
            extra_compile_args=["-O3", "-std=c11", "-Wall", "-Wextra", "-pthread"],
            extra_link_args=["-pthread"],
            optional=True,
        ),
        Extension(
            "pdproto.kernels._copy",
            sources=["kernels/copy.c"],
            extra_compile_args=["-O3", "-std=gnu11", "-Wall", "-Wextra"],
            optional=True,
        ),
    ]
)
