"""Memory that processes with a GPU share, as far as that goes without one."""

import os
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

torch = pytest.importorskip("torch")

from pdproto.pages.cuda import EXPORTED, RUN, CudaDevice, Shared  # noqa: E402 - needs torch


def no_peer(_handle: bytes) -> int:
    raise OSError("cuIpcOpenMemHandle_v2: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED")


@pytest.fixture
def device() -> Any:
    """A GPU whose driver has no access to other GPUs."""
    made: Any = CudaDevice.__new__(CudaDevice)
    made.name, made._driver = "cuda:1", SimpleNamespace(open=no_peer)
    return made


def test_a_gpu_without_access_to_the_other_one_is_named_with_the_way_out(device: Any) -> None:
    told = msgspec.msgpack.encode(Shared(os.getpid(), RUN ^ 1, 0, 64, bytes(64)))
    with pytest.raises(OSError, match=r"^cuda:1 does not reach the memory of process \d+: cuIpc.*_"
                                      r"UNSUPPORTED: .*topo -p2p r\); or use engine shm$"):
        device.map(told)


@pytest.mark.parametrize("told", [b"", b"\xc1", msgspec.msgpack.encode(["process", 1, 2, b""])])
def test_bytes_that_describe_no_memory_are_an_error_of_their_sender(
    device: Any, told: bytes
) -> None:
    with pytest.raises(ValueError, match=r"^a description of memory: "):
        device.map(told)


def test_memory_that_this_process_does_not_export_is_refused(device: Any) -> None:
    assert not EXPORTED
    told = msgspec.msgpack.encode(Shared(os.getpid(), RUN, 0x1000, 64, bytes(64)))
    with pytest.raises(ValueError, match="this process exports no memory at 0x1000"):
        device.map(told)
