"""Tensors over memory that another object owns."""

import ctypes
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL of the CUDA driver
DRIVER = "libcuda.so.1"


def address_of(array: NDArray[np.uint8]) -> int:
    """The address of an array. `array.ctypes.data` is the same, and takes twice as long."""
    address: int = array.__array_interface__["data"][0]
    return address


def host_tensor(address: int, length: int, owner: object = None) -> Any:
    """A tensor over `length` bytes of host memory, uint8 [byte].

    owner: lives as long as the tensor. The memory may be read-only, though torch itself refuses to
    alias that: then write nothing to it.
    """
    place = (ctypes.c_uint8 * length).from_address(address)
    place.owner = owner  # type: ignore[attr-defined]
    return torch.frombuffer(place, dtype=torch.uint8)


def cuda_tensor(address: int, length: int, device: torch.device) -> Any:
    """A tensor over `length` bytes of a GPU's memory, uint8 [byte]; the caller keeps them alive.

    Raises ValueError for memory that is not on this GPU.
    """
    found = gpu_of(address)
    if found != device.index:
        where = "host memory" if found is None else f"memory of cuda:{found}"
        raise ValueError(f"address {address:#x} is {where}, not of {device}")
    tensor = torch.as_tensor(Span(address, length), device=device)
    if tensor.data_ptr() != address:
        raise ValueError(f"address {address:#x} is not of {device}: torch has copied its bytes")
    return tensor


def gpu_of(address: int) -> int | None:
    """The number of the GPU that has this address, as torch counts them; None for host memory.

    Raises OSError without a driver.
    """
    ordinal = ctypes.c_int(-1)
    call = ctypes.CDLL(DRIVER).cuPointerGetAttribute
    failed = call(ctypes.byref(ordinal), ctypes.c_int(ORDINAL), ctypes.c_uint64(address))
    return None if failed else ordinal.value


class Span:
    """Memory of a GPU in the form that libraries exchange it in. It lives as long as the tensor."""

    def __init__(self, address: int, length: int) -> None:
        self.address = address
        self.__cuda_array_interface__ = {
            "shape": (length,), "typestr": "|u1", "data": (address, False), "version": 2}
