"""The choice of the copies for given pools and a given engine."""

from pdproto.engine.contract import OnDevice, SinkEngine, SourceEngine
from pdproto.engine.source import Source
from pdproto.kernels.chunk import KVLayout
from pdproto.pages.copies import Copies
from pdproto.pages.device import Device
from pdproto.pages.devices import device_named
from pdproto.pages.host_copies import HostCopies


def copies_for(
    layout: KVLayout, device: Device | None, engine: SourceEngine | SinkEngine
) -> Copies:
    """The copies for pools like these and an engine. device: the device that copies, if the pools
    do not name it.

    Raises ValueError or RuntimeError if there is no such device, EngineError if the engine wants
    one.
    """
    device = device or device_named(layout.device)
    copies = _copies(layout, device, engine if isinstance(engine, Source) else None)
    if isinstance(engine, OnDevice):
        engine.use(copies.shares)
    return copies


def _copies(layout: KVLayout, device: Device | None, source: Source | None) -> Copies:
    if device is None:
        return HostCopies(gathers=source is not None and source.gathers)
    from pdproto.pages.device_copies import DeviceCopies  # noqa: PLC0415 - needs torch

    return DeviceCopies(device, layout.device, carries=source is not None and source.carries)
