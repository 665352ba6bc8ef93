"""Room for more open files than a port accepts connections."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def many_files() -> Iterator[None]:
    """Let this process open as many files as the system allows, within the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
