"""How a drill starts its processes."""

import tempfile
from pathlib import Path

import pytest

from pdproto.drill import children

MODULE = "pdproto.drill.handoff.ranks"


def test_processes_are_copies_of_one() -> None:
    assert children.context(MODULE).get_start_method() == "forkserver"


def test_where_the_path_of_a_socket_would_be_too_long_there_is_no_copy(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    room = children.SOCKET_PATH_MAX - len(children.SOCKET)
    monkeypatch.setattr(tempfile, "tempdir", str(Path("/") / ("x" * (room - 1))))
    assert children.context(MODULE).get_start_method() == "forkserver"
    monkeypatch.setattr(tempfile, "tempdir", str(Path("/") / ("x" * room)))
    assert children.context(MODULE).get_start_method() == "spawn"
