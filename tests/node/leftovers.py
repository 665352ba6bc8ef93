"""What this process holds, for tests that ask whether they leave anything behind.

What counts is what there was not before. An earlier test of the same process may still let go of
something, and who compares two counts takes that for a fault of his own.
"""

import os
import threading
from collections import Counter
from contextlib import suppress

import psutil


def mapped() -> set[str]:
    """The shared staging memory that this process has mapped, and what has a name at all."""
    maps = psutil.Process().memory_maps(grouped=False)
    names = os.listdir("/dev/shm")  # noqa: S108 - only looked at
    named = {name for name in names if "pdproto" in name}
    return {one.path for one in maps if one.path.startswith("/memfd:pdproto")} | named


def opened() -> dict[int, str]:
    """This process's open files, and what each is."""
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the list itself is closed again
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def held() -> Counter[str]:
    """Files and sockets, threads, and shared memory. No two sockets are called alike."""
    threads = [one.name for one in threading.enumerate() if one.name.startswith("pdproto")]
    return Counter([*opened().values(), *threads, *mapped()])
