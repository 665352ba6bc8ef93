"""Moves a thread or a process to a host of namespaces.py.

Apart from that module, because each process of a drill imports this one.
"""

import ctypes
import os
from collections.abc import Callable
from typing import Any, Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWNET: Final = 0x40000000
MS_REC_PRIVATE: Final = 0x4000 | 0x40000
LIBC: Final = ctypes.CDLL(None, use_errno=True)


def enter(path: str) -> None:
    """Move this thread into the namespace, for good; its children and threads begin there."""
    done(LIBC.unshare(CLONE_NEWNS), "unshare")
    done(LIBC.mount(b"none", b"/", None, MS_REC_PRIVATE, None), "mount /")
    file = os.open(path, os.O_RDONLY)
    try:
        done(LIBC.setns(file, CLONE_NEWNET), "setns")
    finally:
        os.close(file)
    # Of the namespace that it is mounted in; UCX looks there for devices.
    done(LIBC.mount(b"sysfs", b"/sys", b"sysfs", 0, None), "mount /sys")


def run_there(path: str, body: Callable[..., None], *arguments: Any) -> None:
    """Run the body in the namespace: for the first function of a process."""
    enter(path)
    body(*arguments)


def done(status: int, what: str) -> None:
    """Raises OSError if a function of the C library has failed."""
    if status:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
