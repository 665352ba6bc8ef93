"""How a drill starts its processes."""

import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import pytest

from pdproto.drill import children
from tests.waiting import ended, until

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


def _wait_for_ever(folder: Path) -> None:
    with (folder / "stderr").open("wb") as file:
        os.dup2(file.fileno(), children.STDERR)
    children.while_parent_lives(_stuck, folder)


def _stuck(folder: Path) -> None:
    (folder / "begun").touch()
    time.sleep(60.0)


def test_a_child_writes_its_stack_when_asked(tmp_path: Path) -> None:
    child = multiprocessing.get_context("fork").Process(target=_wait_for_ever, args=(tmp_path,))
    child.start()
    assert child.pid is not None
    try:
        until((tmp_path / "begun").exists)
        os.kill(child.pid, children.STACKS)
        until(lambda: "in _stuck" in (tmp_path / "stderr").read_text())
        assert child.is_alive()
    finally:
        child.kill()
        ended(child)


