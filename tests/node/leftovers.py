"""What this process holds, for tests that ask whether they leave anything behind.

What counts is what there was not before. An earlier test of the same process may still let go of
something, and who compares two counts takes that for a fault of his own.
"""

import os
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

STAGING: Final = "/memfd:pdproto"


def mapped() -> set[str]:
    """The shared staging memory that this process has mapped, and what has a name at all."""
    # Not smaps, which psutil reads: there the kernel looks at every page, for 30 ms.
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = {line[line.index(STAGING):].removesuffix(" (deleted)")
             for line in maps if STAGING in line}
    names = os.listdir("/dev/shm")  # noqa: S108 - only looked at
    return paths | {name for name in names if "pdproto" in name}


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
