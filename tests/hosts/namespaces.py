"""Two hosts on one machine: network namespaces, joined by a veth pair or by a wire of ours.

Needs root and `ip` (Debian: iproute2). Whoever cannot make a namespace skips, saying so. They have
no names: this process holds them by a file each, and they end with it, however it ends.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import resource_tracker
from secrets import token_hex
from typing import TypeVar

import pytest

from tests.hosts.entered import CLONE_NEWNET, LIBC, done, enter

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Host:
    """A network namespace. path: leads to it while the process lives that has made it. v4, v6: its
    addresses on the link to the other one.
    """

    path: str
    device: str
    v4: str
    v6: str

    def address(self, version: int) -> str:
        return self.v6 if version == 6 else self.v4

    def enter(self) -> None:
        """Move this thread into it, for good; its children and threads begin there."""
        enter(self.path)

    def call(self, function: Callable[[], T]) -> T:
        """What the function returns when it is called there, in a thread of its own."""
        def body() -> T:
            self.enter()
            return function()

        return _in_a_thread(body)

    def ip(self, *arguments: str) -> None:
        self.call(lambda: subprocess.run(["ip", *arguments], capture_output=True, check=True))


@contextmanager
def hosts(join: Callable[[Host, Host], Callable[[], None]] | None = None) -> Iterator[
        tuple[Host, Host]]:
    """Two hosts that reach each other, and nobody else. join: makes the devices in place of a veth
    pair, and returns what takes them away.
    """
    why = impossible()
    if why:
        pytest.skip(f"two hosts: {why}")
    resource_tracker.ensure_running()  # here: it outlives the namespaces
    mark = token_hex(3)
    files: list[int] = []
    end: Callable[[], None] = _nothing
    try:
        files += (_in_a_thread(_new_namespace) for _ in "ab")
        one, other = (
            Host(f"/proc/{os.getpid()}/fd/{file}", f"pd{mark}{place}", f"10.213.47.{place}",
                 f"fd5e:c1a5::{place}") for place, file in enumerate(files, 1))
        end = (join or _veth)(one, other)
        for host, peer in ((one, other), (other, one)):
            host.ip("addr", "add", f"{host.v4}/24", "dev", host.device)
            host.ip("addr", "add", f"{host.v6}/64", "dev", host.device, "nodad")
            host.ip("link", "set", "lo", "up")
            host.ip("link", "set", host.device, "up")
            host.ip("route", "add", "default", "via", peer.v4)
            host.ip("-6", "route", "add", "default", "via", peer.v6, "dev", host.device)
        yield one, other
    finally:
        end()
        for file in files:
            os.close(file)


@cache
def impossible() -> str:
    """Why there can be no namespaces here; empty if there can."""
    if shutil.which("ip") is None:
        return "there is no `ip` here (Debian: apt-get install iproute2)"
    try:
        file = _in_a_thread(_new_namespace)
    except OSError as error:
        return f"this process may not make network namespaces: {error}"
    os.close(file)
    return ""


def _new_namespace() -> int:
    """A file that holds a new one. The calling thread stays there."""
    done(LIBC.unshare(CLONE_NEWNET), "unshare")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def _in_a_thread(function: Callable[[], T]) -> T:
    """What it returns, or raises, in a thread of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function).result()


def _veth(one: Host, other: Host) -> Callable[[], None]:
    one.ip("link", "add", one.device, "type", "veth", "peer", "name", other.device, "netns",
           other.path)
    return _nothing  # it goes with the namespaces


def _nothing() -> None:
    pass
