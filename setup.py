"""The native search engine, built when the machine has a C compiler.

Everything else about the package is in pyproject.toml. `optional` lets an installation without
a compiler succeed: `pdproto check` then says so and runs its portable engine, which gives the
same answers more slowly.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "pdproto.check.native._search",
            sources=["pdproto/check/native/search.c"],
            extra_compile_args=["-O3", "-std=c11", "-Wall", "-Wextra", "-pthread"],
            extra_link_args=["-pthread"],
            optional=True,
        )
    ]
)
