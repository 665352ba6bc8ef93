"""Staging memory is a file without a name: a full /dev/shm does not matter to it."""

import os
import subprocess
import sys
from typing import Final

import pytest

from tests.skips import NO_MOUNT
from tests.vllm.full_shm import SMALL_BYTES

SMALL: Final = f"mount -t tmpfs -o size={SMALL_BYTES} none /dev/shm"
OWN: Final = ("unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]),
              "sh", "-c")


def may_mount() -> bool:
    try:
        return subprocess.run([*OWN, SMALL], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def test_a_full_dev_shm_fails_no_request_and_refused_memory_fails_its_request_alone() -> None:
    """The system refuses memory for the first request: both servers say why, and live on. The next
    one is handed over, with /dev/shm full.
    """
    if not may_mount():
        pytest.skip(NO_MOUNT)
    run = subprocess.run(
        [*OWN, f'{SMALL} && exec "$0" -m tests.vllm.full_shm', sys.executable],
        capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
