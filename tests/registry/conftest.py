"""A registry for each test, and a client of it."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pdproto.check.trace.verify import verify
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import (
    RegistryClient,
)
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.spec.handoff import dp_rank
from pdproto.spec.handoff import registry as registry_tables
from tests.registry.test_trace import NEVER_SILENT

SYSTEMS = registry_tables.SYSTEM, dp_rank.SYSTEM


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RegistryServer]:
    """A registry. What it has done is replayed in the end against both its tables."""
    with ExitStack() as opened:
        files = [(system, tmp_path / f"{system.name}.jsonl") for system in SYSTEMS]
        traces = {system.name: SharedTrace("registry", opened.enter_context(path.open("wb")))
                  for system, path in files}
        with RegistryServer(limits=NEVER_SILENT, traces=traces) as running:
            yield running
    for system, path in files:
        if path.stat().st_size:
            verified = verify(system, [path])
            assert verified.is_explained, verified


@pytest.fixture
def client(server: RegistryServer) -> Iterator[RegistryClient]:
    speaking = RegistryClient(f"127.0.0.1:{server.port}")
    yield speaking
    speaking.close()
