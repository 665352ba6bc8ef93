"""The pools of a rank in the drill: in host memory, or on a device.

Both are read and written as uint8 [layer, page, byte]. On a device, pages are computed by work that
its stream does later, as a serving engine's kernels do.
"""

import os
from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from pdproto.pages.device import Device

DEVICES: Final = ("cpu", "cuda", "interpreter", "late")
Shape: TypeAlias = tuple[int, int, int]  # layers, pages, bytes of a page


class Pools(Protocol):
    """The pools of a rank, read and written as uint8 [layer, page, byte]."""

    def __setitem__(self, pages: Any, content: NDArray[np.uint8] | int) -> None: ...

    def __getitem__(self, pages: Any) -> NDArray[np.uint8]: ...


class DevicePools:
    """Pools on a device. device: see pages/device.py."""

    def __init__(self, shape: Shape, device: Device) -> None:
        layers, pages, length = shape
        self.device: Final = device
        self.tensor: Final = device.memory(layers * pages * length).reshape(shape)

    def __setitem__(self, pages: Any, content: NDArray[np.uint8] | int) -> None:
        from torch import as_tensor  # noqa: PLC0415 - only with a device

        computed = as_tensor(np.array(content))  # torch takes no memory that is read-only
        self.device.compute(lambda: self.tensor.__setitem__(pages, computed))

    def __getitem__(self, pages: Any) -> NDArray[np.uint8]:
        return cast("NDArray[np.uint8]", self.tensor[pages].cpu().numpy())


def pools_on(device: Device | None, shape: Shape) -> Pools:
    """Pools that hold only 0."""
    if device is None:
        return cast("Pools", np.zeros(shape, np.uint8))
    return DevicePools(shape, device)


def layers_of(pools: Pools, tokens: int = 1, part_tokens: int = 1) -> Sequence[Any]:
    """Pools as the kernels want them: one [page, token, head, byte] for each layer.

    tokens: of a page. part_tokens: of what the drill calls a page, which is a part of these.
    """
    of = pools.tensor if isinstance(pools, DevicePools) else cast("NDArray[np.uint8]", pools)
    layers, parts, part_bytes = of.shape
    return list(of.reshape(layers, parts * part_tokens // tokens, tokens, 1,
                           part_bytes // part_tokens))


def device_of(name: str, seed: int) -> Device | None:
    """The device of this name, of DEVICES; None for host memory. seed: of the delays of a simulated
    device.

    Raises ImportError without torch, RuntimeError without such a device.
    """
    if name == "cpu":
        return None
    if name in {"interpreter", "late"}:
        os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when a kernel is defined
        from pdproto.pages.host_device import HostDevice  # noqa: PLC0415 - needs torch

        return HostDevice(seed, "interpreter" if name == "interpreter" else None)
    from pdproto.pages.cuda import CudaDevice  # noqa: PLC0415 - needs torch

    return CudaDevice("cuda:0")
