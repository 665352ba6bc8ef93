"""Fixtures of tests with an engine (engine.py), which import vLLM, so only where it is used."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest


@pytest.fixture
def closing(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    """Ends what a test has opened. There are no other workers."""
    from tests.vllm.engine import alone

    alone(monkeypatch)
    monkeypatch.setenv("VLLM_HOST_IP", "127.0.0.1")
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the model."""
    from tests.vllm.engine import model_folder

    return model_folder(tmp_path_factory.mktemp("model"))
