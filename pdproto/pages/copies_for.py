"""The choice of the copies for given pools."""

from pdproto.kernels.chunk import KVLayout
from pdproto.pages.copies import Copies
from pdproto.pages.device import Device
from pdproto.pages.devices import device_named
from pdproto.pages.host_copies import HostCopies


def copies_for(layout: KVLayout, device: Device | None = None, *, gathers: bool = False) -> Copies:
    """The copies for pools like these. device: the device that copies, if the pools
    do not name it. gathers: see HostCopies.

    Raises ValueError or RuntimeError if there is no such device.
    """
    device = device or device_named(layout.device)
    if device is None:
        return HostCopies(gathers=gathers)
    from pdproto.pages.device_copies import DeviceCopies  # noqa: PLC0415 - needs torch

    return DeviceCopies(device, layout.device)
