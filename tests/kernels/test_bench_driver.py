"""CUDA's libraries as the benchmark calls them: compiled for sm_90, and run on the CPU."""

from __future__ import annotations

import ctypes
import pathlib
from typing import Any, Final
from zlib import adler32

import numpy as np
import pytest

from lab.bench import driver
from lab.bench.driver import Kernels, LeftOutError, Runtime
from tests.kernels import cuda_host
from tests.kernels.cuda_host import IMAGE, STREAM

pytest.importorskip("torch")
needs_compiler: Final = pytest.mark.skipif(
    cuda_host.COMPILER is None, reason="no C compiler to run CUDA C on the CPU with"
)


@pytest.fixture
def library(tmp_path: pathlib.Path) -> ctypes.CDLL:
    from lab.bench.patterns import SOURCE  # noqa: PLC0415 - needs torch

    return cuda_host.library(SOURCE, driver.index_option(32), tmp_path)


def _set(library: ctypes.CDLL, version: int) -> Runtime:
    ctypes.c_int.in_dll(library, "version").value = version
    return Runtime(library)


def _memory() -> tuple[Any, Any, Any]:
    """Bytes, where to put them, and copies that reverse them piece by piece."""
    source = np.random.default_rng(3).integers(0, 256, 96, np.uint8)
    target = np.zeros(96, np.uint8)
    copies = [
        (source.ctypes.data + start, target.ctypes.data + 64 - start, 32) for start in (0, 32, 64)
    ]
    return source, target, np.array(copies, np.int64)


@needs_compiler
class TestCopiesOfTheDriver:
    @pytest.mark.parametrize("version", [12080, 12090, 13000, 13020])
    def test_a_batch_has_the_arguments_of_its_version(
        self, library: ctypes.CDLL, version: int
    ) -> None:
        source, target, copies = _memory()
        batch = _set(library, version).batch(copies)
        del copies
        batch.run(STREAM)
        assert (target.reshape(3, 32) == source.reshape(3, 32)[::-1]).all()
        with pytest.raises(RuntimeError, match="cudaMemcpyBatchAsync: CUDA error 1"):
            batch.run(0)
        assert library.cudaGetLastError() == 0

    def test_an_old_runtime_has_no_batches(self, library: ctypes.CDLL) -> None:
        with pytest.raises(LeftOutError, match="12060 has no cudaMemcpyBatchAsync"):
            _set(library, 12060).batch(_memory()[2])

    def test_a_copy_for_each_row(self, library: ctypes.CDLL) -> None:
        source, target, copies = _memory()
        runtime = _set(library, 12060)
        runtime.copy_each(copies, STREAM)
        assert (target.reshape(3, 32) == source.reshape(3, 32)[::-1]).all()
        assert ctypes.c_int.in_dll(library, "copied").value == 3
        with pytest.raises(RuntimeError, match="cudaMemcpyAsync: CUDA error 1"):
            runtime.copy_each(copies, 0)
        assert library.cudaGetLastError() == 0


@needs_compiler
class TestLaunches:
    def test_sums_are_those_of_zlib_on_bytes_that_overflow_soonest(
        self, library: ctypes.CDLL
    ) -> None:
        kernels = Kernels(library, IMAGE)
        for size in (16, 5536, 5552, 5568, 65536):
            pages = np.full((3, size), 255, np.uint8)
            pages[1] = np.arange(size) % 251
            sums = np.zeros(3, np.int64)
            kernels.launch("thread_per_page", (1, 1), 32, STREAM, pages.ctypes.data, size, 3,
                           sums.ctypes.data)  # fmt: skip
            assert sums.tolist() == [adler32(page.tobytes()) for page in pages]

    def test_a_refusal_of_the_driver_is_an_error(self, library: ctypes.CDLL) -> None:
        with pytest.raises(RuntimeError, match="cuModuleLoadData: CUDA error 200"):
            Kernels(library, b"PTX?")
        kernels = Kernels(library, IMAGE)
        with pytest.raises(RuntimeError, match="of nothing: CUDA error 500"):
            kernels.launch("nothing", (1, 1), 32, STREAM)
        with pytest.raises(RuntimeError, match="block_per_piece: CUDA error 1"):
            kernels.launch("block_per_piece", (1, 70_000), 32, STREAM, 0)


class TestRealLibraries:
    """NVIDIA's compiler, which the extra `test` installs, and which needs no GPU."""

    @pytest.fixture
    def compiler(self) -> ctypes.CDLL:
        try:
            return driver.nvrtc()
        except LeftOutError as error:
            pytest.skip(str(error))

    @pytest.mark.parametrize("bits", [32, 64])
    def test_every_kernel_compiles_for_sm_90(self, compiler: ctypes.CDLL, bits: int) -> None:
        from lab.bench.patterns import SOURCE  # noqa: PLC0415 - needs torch

        options = ("--gpu-architecture=sm_90", driver.index_option(bits))
        image = driver.compiled(SOURCE, options, compiler)
        assert image.startswith(b"\x7fELF")
        for name in (b"warp_per_token", b"block_per_piece", b"thread_per_page"):
            assert b".text." + name + b"\0" in image

    def test_a_compile_error_gives_its_reason(self, compiler: ctypes.CDLL) -> None:
        with pytest.raises(RuntimeError, match="nonsense"):
            driver.compiled("nonsense();", ("--gpu-architecture=sm_90",), compiler)


def test_a_library_that_is_not_loaded_is_left_out() -> None:
    assert driver.loaded("libc.so").getpid() > 0
    with pytest.raises(LeftOutError, match=r"no libcudart-of-nobody\.so is loaded"):
        driver.loaded("libcudart-of-nobody.so")
