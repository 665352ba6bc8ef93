"""A finder is stopped while its thread takes up another wish."""

from pathlib import Path
from threading import Event, current_thread, main_thread

import pytest

from pdproto.registry.app import RegistryServer
from pdproto.registry.finder import Finder
from tests.registry.test_finder import FIRST, SECOND, finder, registrar
from tests.registry.test_trace import Traced
from tests.waiting import PATIENCE_S, until


class StoppedAfterALook(Event):
    """`stop` is called just after the thread has looked whether it was."""

    def __init__(self, finding: Finder) -> None:
        super().__init__()
        self._finding = finding
        self.was_looked_at = Event()

    def is_set(self) -> bool:
        known = super().is_set()
        if current_thread() is not main_thread() and not self.was_looked_at.is_set():
            self.set()
            self._finding._wanted.set()
            self.was_looked_at.set()
        return known


def test_a_stop_that_meets_another_wish_ends_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread cleared the wish of `stop` with the other one, and waited for ever."""
    traced = Traced(tmp_path)
    with (RegistryServer() as server, registrar(traced, server, FIRST),
          registrar(traced, server, SECOND), finder(server, FIRST) as finding):
        until(lambda: finding.found is not None)
        stopping = StoppedAfterALook(finding)
        monkeypatch.setattr(finding, "_stopping", stopping)
        finding._wanted.set()
        assert stopping.was_looked_at.wait(PATIENCE_S)
        finding._thread.join(PATIENCE_S)
        ended = not finding._thread.is_alive()
        finding._wanted.set()  # so that the thread ends, whatever it has cleared
        assert ended, "the wish of `stop` was cleared unseen"
    traced.opened.close()
