"""A value that all processes of a test run share is made once."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.shared_answers import FOLDER, once
from tests.waiting import PATIENCE_S, ended


def test_the_first_to_ask_makes_it_and_the_others_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    begun, going_on, found = threading.Event(), threading.Event(), list[Any]()

    def make() -> dict[str, list[int]]:
        begun.set()
        going_on.wait(PATIENCE_S)
        return {"made": [1]}

    threads = [threading.Thread(target=lambda: found.append(once("value", make)))]
    threads[0].start()
    begun.wait(PATIENCE_S)
    threads.append(threading.Thread(
        target=lambda: found.append(once("value", lambda: pytest.fail("it is made again")))))
    threads[1].start()
    threads[1].join(0.5)  # it waits; else it would have asked by now
    going_on.set()
    for thread in threads:
        ended(thread)
    assert found == [{"made": [1]}] * 2


def test_what_could_not_be_made_is_made_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(ZeroDivisionError):
        once("value", lambda: 1 // 0)
    assert once("value", lambda: 1) == 1
