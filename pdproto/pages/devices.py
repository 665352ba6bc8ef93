"""The devices that pools can be on, by the kind that torch names them by."""

from collections.abc import Callable
from typing import Final

from pdproto.pages.device import Device


def _cuda(name: str) -> Device:
    from pdproto.pages.cuda import CudaDevice  # noqa: PLC0415 - needs torch

    return CudaDevice(name)


def _host(_: str) -> None:
    """Pools in host memory need no device."""


KINDS: Final[dict[str, Callable[[str], Device | None]]] = {"cpu": _host, "cuda": _cuda}


def device_named(name: str) -> Device | None:
    """The device of this name, such as "cuda:0"; None for host memory.

    Raises ValueError for another kind of device, RuntimeError if this machine has no such device.
    """
    kind = name.partition(":")[0]
    if kind not in KINDS:
        raise ValueError(f"a KV cache on {name}: want it on one of {', '.join(KINDS)}")
    return KINDS[kind](name)
