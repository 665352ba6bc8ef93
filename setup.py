"""The native search engine and the native copies, built when the machine has a C compiler.

Everything else about the package is in pyproject.toml. `optional` lets an installation without
a compiler succeed: `pdproto check` then says so and runs its portable engine, and pages are copied
by numpy, with the same answers and more slowly.

Both libraries are opened by ctypes, and as modules they are empty. So a wheel is for every Python
from 3.11 on (the stable ABI). A Python without a global lock has no such ABI. An editable
installation keeps the name of this Python's own libraries, which Python looks for first.
"""

import sys
import sysconfig

from setuptools import Extension, setup

NATIVE = "pdproto/check/native"
STABLE_ABI = "bdist_wheel" in sys.argv and not sysconfig.get_config_var("Py_GIL_DISABLED")
MACROS = [("Py_LIMITED_API", "0x030B0000")] if STABLE_ABI else []

setup(
    ext_modules=[
        Extension(
            "pdproto.check.native._search",
            sources=[f"{NATIVE}/{name}.c" for name in ("search", "kernel_avx2", "fair")],
            depends=[f"{NATIVE}/{name}.h" for name in ("search", "kernel", "memory")],
            define_macros=MACROS,
            py_limited_api=STABLE_ABI,
            extra_compile_args=["-O3", "-std=c11", "-Wall", "-Wextra", "-pthread"],
            extra_link_args=["-pthread"],
            optional=True,
        ),
        Extension(
            "pdproto.kernels._copy",
            sources=["kernels/copy.c"],
            define_macros=MACROS,
            py_limited_api=STABLE_ABI,
            extra_compile_args=["-O3", "-std=gnu11", "-Wall", "-Wextra"],
            optional=True,
        ),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE_ABI else {},
)
