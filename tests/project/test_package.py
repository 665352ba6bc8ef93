"""What `import pdproto` offers."""

import subprocess
import sys

import pdproto


def test_every_name_is_there() -> None:
    for name in pdproto.__all__:
        assert getattr(pdproto, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(pdproto, "Prefil")


def test_importing_it_loads_no_sockets() -> None:
    """Who only checks tables waits for nothing else."""
    code = "import pdproto, sys; print([m for m in ('zmq', 'aiohttp') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
