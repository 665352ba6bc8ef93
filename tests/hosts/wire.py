"""A wire between two namespaces on which packets are late, lost, and cut off in one direction.

`tc netem` does the same where the kernel has it, and kernels of containers and of small virtual
machines often do not. Here a thread carries the packets between two TUN devices.
"""

import fcntl
import heapq
import os
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from multiprocessing.connection import wait
from random import Random
from typing import Final

from tests.hosts.namespaces import Host
from tests.waiting import ended

TUNSETIFF: Final = 0x400454CA
IFF_TUN_NO_PI: Final = 0x0001 | 0x1000
PACKET_BYTES: Final = 65_536
TCP: Final = 6

Flow = tuple[bytes, int, bytes, int]  # a TCP connection's addresses and ports, one way


class Wire:
    """Pass `join` to `hosts`. All else may be changed at any time, by any thread.

    delay_s: of every packet, either way. loss: the share of packets that is lost. cut: the places
    of hosts, 0 or 1, whose packets do not come through; nobody is told. blocked: the same of only
    those TCP packets of the host that are from or to a port, each a place and a port.
    """

    def __init__(self, *, delay_s: float = 0.0, loss: float = 0.0, seed: int = 0) -> None:
        self.delay_s, self.loss = delay_s, loss
        self.cut: frozenset[int] = frozenset()
        self.blocked: frozenset[tuple[int, int]] = frozenset()
        self.carried = self.lost = 0
        self._dice: Final = Random(seed)  # noqa: S311 - it decides about packets
        self._devices: list[int] = []
        self._flows: Final[set[Flow]] = set()
        self._forgotten: frozenset[Flow] = frozenset()
        self._ending: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, daemon=True)

    def join(self, *pair: Host) -> Callable[[], None]:
        self._devices = [host.call(lambda host=host: _device(host)) for host in pair]  # type: ignore[misc]
        self._thread.start()
        return self._end

    def forget(self, port: int) -> int:
        """As a firewall that forgets: of the TCP connections to this port that there are, nothing
        comes through any more, either way. New ones do. Returns how many there are.
        """
        to = {flow for flow in list(self._flows) if flow[3] == port}
        self._forgotten |= to | {(flow[2], flow[3], flow[0], flow[1]) for flow in to}
        return len(to)

    def _run(self) -> None:
        numbers, late = count(), list[tuple[float, int, int, bytes]]()
        while not self._ending.is_set():
            due_s = max(0.0, late[0][0] - time.monotonic()) if late else 0.05
            ready = wait(self._devices, due_s)  # select takes no file above 1,023
            now = time.monotonic()
            for device in filter(ready.__contains__, self._devices):
                packet = os.read(device, PACKET_BYTES)
                if self._passes(self._devices.index(device), packet):
                    other = self._devices[1 - self._devices.index(device)]
                    heapq.heappush(late, (now + self.delay_s, next(numbers), other, packet))
                else:
                    self.lost += 1
            while late and late[0][0] <= now:
                _, _, device, packet = heapq.heappop(late)
                self.carried += 1
                with suppress(OSError):
                    os.write(device, packet)

    def _passes(self, place: int, packet: bytes) -> bool:
        flow = _flow(packet)
        if flow is not None:
            self._flows.add(flow)
            if flow in self._forgotten or self.blocked & {(place, flow[1]), (place, flow[3])}:
                return False
        return place not in self.cut and self._dice.random() >= self.loss

    def _end(self) -> None:
        self._ending.set()
        if self._thread.ident is not None:
            ended(self._thread)
        for device in self._devices:
            os.close(device)


def _device(host: Host) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", host.device.encode(), IFF_TUN_NO_PI))
    return device


def _flow(packet: bytes) -> Flow | None:
    """The connection of a TCP packet, in its direction; None of any other."""
    version = packet[0] >> 4
    if version == 4 and packet[9] == TCP:
        start, source, target = 4 * (packet[0] & 15), packet[12:16], packet[16:20]
    elif version == 6 and packet[6] == TCP:
        start, source, target = 40, packet[8:24], packet[24:40]
    else:
        return None
    ports = struct.unpack("!HH", packet[start:start + 4])
    return source, ports[0], target, ports[1]
