"""A run of vLLM's NixlConnector, as its events are noted, on the tables that describe its lease."""

from pathlib import Path
from typing import Any, cast

import pytest

from lab.peers.vllm_lease import SYSTEM
from lab.peers.vllm_lease_repaired import CONFIRMED
from lab.vllm_lease import late_read
from lab.vllm_lease.lease_trace import Event, one_block_each, write
from pdproto.check.result import Verdict
from pdproto.check.trace.verify import verify
from pdproto.spec.language.system import System

LATE = [Event("computed", "late", [3, 4]), Event("expired", "late"),
        Event("computed", "other", [4, 5]), Event("read too late", "late"),
        Event("beat too late", "late")]
IN_TIME = [Event("computed", "late", [3, 4]), Event("renewed", "late"), Event("read", "late"),
           Event("computed", "other", [4, 5])]
AT_DECODE = [Event("queued", "late"), Event("scheduled", "late"), Event("beat", "late"),
             Event("loaded", "late")]


def verdict(folder: Path, prefill: list[Event], wrong: set[str], system: System = SYSTEM
            ) -> tuple[Verdict, str]:
    found = verify(system, write(folder, prefill, AT_DECODE, wrong))
    return found.verdict, found.rejection.text if found.rejection else ""


@pytest.mark.parametrize(("prefill", "wrong"), [(LATE, {"late"}), (IN_TIME, set())])
def test_a_run_of_the_connector_conforms(
    tmp_path: Path, prefill: list[Event], wrong: set[str]
) -> None:
    assert verdict(tmp_path, prefill, wrong) == (Verdict.HOLDS, "")


def test_a_lease_that_confirms_reads_rejects_a_late_one(tmp_path: Path) -> None:
    found, line = verdict(tmp_path, LATE, {"late"}, CONFIRMED)
    assert found is Verdict.VIOLATED
    assert "log_late_read" in line


def test_a_block_that_two_requests_have_at_once_is_rejected(tmp_path: Path) -> None:
    kept = [event for event in LATE if event.event != "expired"]
    assert verdict(tmp_path, kept, {"late"})[0] is Verdict.VIOLATED


def test_a_lease_that_ends_before_it_begins_is_rejected(tmp_path: Path) -> None:
    assert verdict(tmp_path, [*LATE[1:], LATE[0]], {"late"})[0] is Verdict.VIOLATED


def test_a_request_has_the_block_that_a_later_one_got() -> None:
    assert one_block_each({"a": [1, 2], "b": [5], "c": [2, 6], "d": [1, 6]}) == {
        "a": 2, "b": 5, "c": 2, "d": 1}


@pytest.mark.parametrize(("tokens", "right", "told"), [
    ([3, 4], True, ": right, "), ([3, 5], False, ": WRONG with status 200"),
    (None, True, ": refused: status 500"),
])
def test_an_answer_is_right_only_with_every_token(
    tokens: list[int] | None, right: bool, told: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def complete(*_: object) -> dict[str, Any]:
        if tokens is None:
            raise OSError("status 500")
        return {"choices": [{"token_ids": tokens}]}

    monkeypatch.setattr(late_read, "complete", complete)
    assert late_read._is_right(cast("Any", None), [1, 2], {}, [3, 4]) == right
    out = capsys.readouterr().out
    assert told in out
    assert (": right, " in out) == (tokens == [3, 4])
