"""The choice of the copies for given pools and a given engine."""

from pdproto.engine.contract import OnDevice, SinkEngine, SourceEngine
from pdproto.engine.source import Source
from pdproto.kernels.chunk import KVLayout
from pdproto.pages.copies import Copies
from pdproto.pages.device import Device
from pdproto.pages.devices import device_named
from pdproto.pages.host_copies import HostCopies


def copies_for(
    layout: KVLayout, device: Device | None, engine: SourceEngine | SinkEngine, threads: int
) -> Copies:
    """The copies for pools like these and an engine. device: the device that copies, if the pools
    do not name it. threads: that copy a large chunk in host memory.

    Raises ValueError or RuntimeError if there is no such device, EngineError if the engine wants
    one.
    """
    device = device or device_named(layout.device)
    source = engine if isinstance(engine, Source) else None
    copies = _copies(layout, device, source, threads)
    if isinstance(engine, OnDevice):
        engine.use(copies.shares)
    return copies


def _copies(
    layout: KVLayout, device: Device | None, source: Source | None, threads: int
) -> Copies:
    if device is None:
        return HostCopies(gathers=source is not None and source.gathers, threads=threads)
    from pdproto.pages.device_copies import DeviceCopies  # noqa: PLC0415 - needs torch

    return DeviceCopies(device, layout.device, carries=source is not None and source.carries)
