"""Fixtures of tests with an engine (engine.py), which import vLLM, so only where it is used."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def closing(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    """Ends what a test has opened. There are no other workers."""
    from tests.vllm.engine import alone

    alone(monkeypatch)
    monkeypatch.setenv("VLLM_HOST_IP", "127.0.0.1")
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Each worker takes vLLM's tensors for those of a device of its own, which does its work late.
    Returns the devices, in the order in which the workers begin.
    """
    from pdproto.pages import devices
    from pdproto.pages.host_device import HostDevice

    made: list[Any] = []

    def make(_: str) -> Any:
        made.append(HostDevice(len(made)))
        return made[-1]

    monkeypatch.setitem(devices.KINDS, "cpu", make)
    return made


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the model."""
    from tests.vllm.engine import model_folder

    return model_folder(tmp_path_factory.mktemp("model"))
