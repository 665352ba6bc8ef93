"""Which copies serve which pools."""

from pdproto.kernels.chunk import KVLayout
from pdproto.pages.copies import Copies
from pdproto.pages.device import Device
from pdproto.pages.host_copies import HostCopies


def copies_for(layout: KVLayout, device: Device | None = None, *, gathers: bool = False) -> Copies:
    """The copies for pools like these. device: if not that of the pools. gathers: see HostCopies.

    Raises RuntimeError if there is no such device.
    """
    if layout.device == "cpu" and device is None:
        return HostCopies(gathers=gathers)
    from pdproto.pages.cuda import CudaDevice  # noqa: PLC0415 - needs torch
    from pdproto.pages.device_copies import DeviceCopies  # noqa: PLC0415 - needs torch

    return DeviceCopies(device or CudaDevice(layout.device))
