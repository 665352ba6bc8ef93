"""CUDA's own libraries by ctypes, for functions that torch lacks: batched copies, NVRTC, launches.

Packing and unpacking do not need this module. A library that is missing on a machine raises
LeftOutError.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

BATCH_SINCE: Final = 12080
"""The first CUDA runtime with cudaMemcpyBatchAsync."""

DEVICE_TO_DEVICE: Final = 3
IN_STREAM_ORDER: Final = 1

Words = NDArray[np.int64]


class LeftOutError(Exception):
    """A baseline is impossible on this machine or for this case. The message says why."""


def _require(name: str, status: int) -> None:
    if status:
        raise RuntimeError(f"{name}: CUDA error {status}")


def _mapped(name: str) -> list[Path]:
    """The library files with that name in this process."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {Path(line.split(maxsplit=5)[5].strip()) for line in maps if name in line}
    return sorted(path for path in paths if path.name.startswith(name))


def loaded(name: str) -> ctypes.CDLL:
    """The library with that name that torch has loaded. Raises LeftOutError if there is none."""
    for path in _mapped(name):
        return ctypes.CDLL(str(path))
    raise LeftOutError(f"no {name} is loaded here")


class Runtime:
    """Copies by the CUDA runtime, on a given stream."""

    def __init__(self, library: ctypes.CDLL) -> None:
        version = ctypes.c_int()
        library.cudaRuntimeGetVersion(ctypes.byref(version))
        self.version = version.value
        self._library, self._copy = library, library.cudaMemcpyAsync
        pointer = ctypes.c_void_p
        self._copy.argtypes = (pointer, pointer, ctypes.c_size_t, ctypes.c_int, pointer)

    def require(self, name: str, status: int) -> None:
        """Raise RuntimeError for an error status.

        It also clears the error in CUDA, which torch would report for its next launch.
        """
        if status:
            self._library.cudaGetLastError()
        _require(name, status)

    def copy_each(self, copies: Words, stream: int) -> None:
        """A cudaMemcpyAsync for each row of int64 [copy, (source, target, bytes)]."""
        for source, target, length in copies.tolist():
            status = self._copy(target, source, length, DEVICE_TO_DEVICE, stream)
            self.require("cudaMemcpyAsync", status)

    def batch(self, copies: Words) -> Batch:
        """The same by one cudaMemcpyBatchAsync, with its arrays made once.

        Raises LeftOutError if the runtime does not have it.
        """
        if self.version < BATCH_SINCE or not hasattr(self._library, "cudaMemcpyBatchAsync"):
            raise LeftOutError(f"CUDA runtime {self.version} has no cudaMemcpyBatchAsync")
        return Batch(self, self._library.cudaMemcpyBatchAsync, copies)


class _Attributes(ctypes.Structure):
    """cudaMemcpyAttributes. Its hints are for memory that can migrate, and stay zero."""

    _fields_ = (
        ("order", ctypes.c_int), ("source_kind", ctypes.c_int), ("source", ctypes.c_int),
        ("target_kind", ctypes.c_int), ("target", ctypes.c_int), ("flags", ctypes.c_uint),
    )  # fmt: skip


class Batch:
    """One cudaMemcpyBatchAsync, which can run any number of times."""

    def __init__(self, runtime: Runtime, function: Any, copies: Words) -> None:
        sources, targets, lengths = (np.ascontiguousarray(column) for column in copies.T)
        self._runtime, self._function = runtime, function
        self._kept = (targets, sources, lengths)
        self._attributes = _Attributes(order=IN_STREAM_ORDER)
        self._first = ctypes.c_size_t(0)
        self._failed = ctypes.c_size_t(0)

    def run(self, stream: int) -> None:
        """Enqueue the copies on a stream, which must not be the legacy default stream."""
        pointer = ctypes.c_void_p
        arrays = [pointer(array.ctypes.data) for array in self._kept]
        arguments = [
            *arrays, ctypes.c_size_t(len(self._kept[0])), ctypes.byref(self._attributes),
            ctypes.byref(self._first), ctypes.c_size_t(1),
        ]  # fmt: skip
        if self._runtime.version < 13000:  # CUDA 13 dropped the index of the copy that failed
            arguments.append(ctypes.byref(self._failed))
        status = self._function(*arguments, pointer(stream))
        self._runtime.require("cudaMemcpyBatchAsync", status)


def nvrtc(major: int = 13) -> ctypes.CDLL:
    """NVIDIA's run-time compiler, from the loader's path, a Python package, or a toolkit.

    major: the preferred version, that of torch's CUDA. Raises LeftOutError if there is none.
    """
    names = [f"libnvrtc.so.{number}" for number in dict.fromkeys((major, 13, 12))]
    spec = find_spec("nvidia")
    folders = [Path(root) for root in (spec.submodule_search_locations if spec else None) or ()]
    folders += sorted(Path("/usr/local").glob("cuda*/lib64"))
    for name in names:
        for found in (name, *(path for folder in folders for path in folder.rglob(name))):
            with suppress(OSError):
                library = ctypes.CDLL(str(found))
                # The library of CUDA 13 does not search its own folder for its second half.
                for path in _mapped("libnvrtc.so"):
                    for half in path.parent.glob("libnvrtc-builtins.so.*"):
                        ctypes.CDLL(str(half))
                return library
    raise LeftOutError("no libnvrtc is here")


def compiled(source: str, options: Sequence[str], library: ctypes.CDLL) -> bytes:
    """CUDA C compiled to machine code. Raises RuntimeError with the compiler's message."""
    program, length = ctypes.c_void_p(), ctypes.c_size_t()
    status = library.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"bench.cu", 0, None, None
    )
    _require("nvrtcCreateProgram", status)
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = library.nvrtcCompileProgram(program, len(options), given)
    kind = "ProgramLog" if failed else "CUBIN"
    getattr(library, f"nvrtcGet{kind}Size")(program, ctypes.byref(length))
    text = ctypes.create_string_buffer(length.value)
    getattr(library, f"nvrtcGet{kind}")(program, text)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise RuntimeError(f"nvrtc: {text.value.decode()}")
    return text.raw


class Kernels:
    """The kernels of one compiled program. All their arguments are 64-bit words."""

    def __init__(self, driver: ctypes.CDLL, image: bytes) -> None:
        self._driver, self._module = driver, ctypes.c_void_p()
        self._functions: dict[str, ctypes.c_void_p] = {}
        _require("cuModuleLoadData", driver.cuModuleLoadData(ctypes.byref(self._module), image))

    def _function(self, name: str) -> ctypes.c_void_p:
        if name not in self._functions:
            found = ctypes.c_void_p()
            status = self._driver.cuModuleGetFunction(
                ctypes.byref(found), self._module, name.encode()
            )
            _require(f"cuModuleGetFunction of {name}", status)
            self._functions[name] = found
        return self._functions[name]

    def launch(
        self, name: str, grid: tuple[int, int], threads: int, stream: int, *words: int
    ) -> None:
        """Enqueue a kernel. grid: blocks along x and y. threads: of a block, along x."""
        values = [ctypes.c_uint64(word) for word in words]
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        status = self._driver.cuLaunchKernel(
            self._function(name), grid[0], grid[1], 1, threads, 1, 1, 0,
            ctypes.c_void_p(stream), places, None,
        )  # fmt: skip
        _require(name, status)


@cache
def kernels(source: str, index_bits: int) -> Kernels:
    """The kernels of `source`, for this GPU and page numbers of `index_bits` bits."""
    import torch  # noqa: PLC0415 - the rest of this module is ctypes alone

    major, minor = torch.cuda.get_device_capability()
    options = (f"--gpu-architecture=sm_{major}{minor}", index_option(index_bits))
    compiler = nvrtc(int((torch.version.cuda or "13").split(".")[0]))
    return Kernels(ctypes.CDLL("libcuda.so.1"), compiled(source, options, compiler))


def index_option(bits: int) -> str:
    """The compiler's option for page numbers of so many bits."""
    return f"-DINDEX={'long long' if bits == 64 else 'int'}"
