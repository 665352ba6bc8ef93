"""`cuda-ipc` between two containers: each process has a PID namespace of its own."""

import shutil
import subprocess
import sys
from typing import Final

import pytest

from tests.hosts.namespaces import impossible
from tests.layers import ROOT

PLACE: Final = (sys.executable, "-m", "tests.engine.in_containers")
PATIENCE_S: Final = 120.0


def test_both_ends_name_the_namespace() -> None:
    """Seen red with a source that is told nothing: "it has closed the connection"."""
    pytest.importorskip("torch")
    unshare, why = shutil.which("unshare"), impossible()
    if why or unshare is None:
        pytest.skip(f"two hosts: {why or 'there is no unshare here'}")
    alone = (unshare, "--pid", "--fork", *PLACE)
    with subprocess.Popen([*alone, "sink"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, cwd=ROOT) as sink:
        assert sink.stdout is not None
        address = sink.stdout.readline().strip()
        source = subprocess.run([*alone, "source", address], capture_output=True, text=True,
                                cwd=ROOT, timeout=PATIENCE_S, check=False)
        _, log = sink.communicate(timeout=PATIENCE_S)
    assert "the sink is in another PID namespace" in source.stdout, source.stderr
    assert "the source is in another PID namespace" in log
