"""`pdproto soak`: processes hold out while everything goes wrong, and what is wrong is told."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from pdproto.cli.main import main
from pdproto.drill.handoff.load import Load, Pages
from pdproto.drill.handoff.rank import Pool
from pdproto.drill.soak import chaos, rounds
from pdproto.drill.soak.cluster import Books, SoakCluster, SoakProcess
from pdproto.drill.soak.rank import Ended, Pipe, SoakRank, Weather, decode, prefill
from pdproto.drill.soak.report import SoakResult, page
from pdproto.drill.soak.rounds import load_of, run_soak
from pdproto.testing.proxy import DOUBLED, LOST, PASSES


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["shm", pytest.param("tcp", marks=pytest.mark.nightly)])
def test_a_soak_ends_without_complaints(engine: str, tmp_path: Path) -> None:
    """For a short while: nothing is lost, and faults there were."""
    ran = subprocess.run(
        [sys.executable, "-m", "pdproto.cli.main", "soak", "--seconds", "8", "--engine", engine,
         "--quiet", "--json", "-", "--record", str(tmp_path / "soak.md")],
        capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    numbers = json.loads(ran.stdout)
    assert numbers["complaints"] == []
    assert numbers["succeeded"] > 0
    assert numbers["verified_bytes"] > 0
    assert numbers["faults"]
    told = (tmp_path / "soak.md").read_text()
    assert f"    pdproto soak --seconds 8 --engine {engine} --quiet\n" in told
    assert f"| hand-overs | {numbers['handoffs']:,} |" in told


@pytest.mark.slow
@pytest.mark.nightly
def test_no_request_fails_when_ranks_are_drained_and_replaced(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other fault comes, and no client leaves: nothing may fail."""
    monkeypatch.setattr(chaos, "SHARES", {"drains": 1})
    load = replace(load_of(0, 4, 1), abort_rate=0.0)
    cluster = SoakCluster(prefill=2, decode=1, load=load, engine="shm", in_flight=4)
    result = run_soak(cluster, 5.0, 0, quiet=True)
    assert result.books.complaints == []
    assert result.books.drained > 0
    assert result.books.failed == 0


def mistaken(place: SoakRank, pipe: Pipe) -> None:
    """A prefill rank that now and then sends a page of another request."""
    right = Load.page

    def page(load: Load, room: int, source: str, index: int) -> Pages:
        return right(load, room + (room % 4 == 3), source, index)

    patch.object(Load, "page", page).start()
    prefill(place, pipe)


def forgetful(place: SoakRank, pipe: Pipe) -> None:
    """A decode rank that does not take back its first page."""
    right, first = Pool.give, iter([1])
    patch.object(Pool, "give", lambda pool, pages: right(pool, pages[next(first, 0):])).start()
    decode(place, pipe)


class Faulty(SoakCluster):
    """A cluster in which one kind of rank has a defect."""

    defect: Callable[[SoakRank, Pipe], None]

    def body(self, name: str) -> Callable[[SoakRank, Pipe], None]:
        is_source = name in self.sources
        return type(self).defect if is_source == (type(self).defect is mistaken) else (
            prefill if is_source else decode)


@pytest.mark.slow
@pytest.mark.parametrize(("defect", "complaint"), [
    (mistaken, "a page holds other bytes than were sent"),
    (forgetful, r"decode-0 holds 1 pages"),
])
def test_a_soak_reports_a_defect(
    defect: Callable[[SoakRank, Pipe], None], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "REST_S", 20.0)
    kind = type("Faulty", (Faulty,), {"defect": defect})
    cluster = kind(prefill=1, decode=1, load=load_of(0, 4, 1), engine="shm", in_flight=4)
    result = run_soak(cluster, 3.0, 0, quiet=True)
    assert any(re.search(complaint, told) for told in result.books.complaints)


class Told(SoakCluster):
    """The books alone, of two sources and a sink that are not there."""

    def __init__(self) -> None:
        self.books = Books()  # type: ignore[misc]
        self.sources = ("prefill-0-0-0", "prefill-1-0-0")  # type: ignore[misc]
        self.sinks = ("decode-0",)  # type: ignore[misc]
        none: Any = None
        self.members = {  # type: ignore[misc]
            name: SoakProcess(name, none, none, name, "", open={7})
            for name in (*self.sources, *self.sinks)}

    def say(self, name: str, *ended: Ended) -> None:
        self._take(self.members[name], [*ended])


def test_a_request_whose_ranks_agree_is_no_complaint() -> None:
    told = Told()
    for name in (*told.sources, *told.sinks):
        told.say(name, Ended(7, success=True))
    assert told.books.complaints == []
    assert told.books.succeeded == 1
    assert not told.books.decided
    assert not told.books.refused


@pytest.mark.parametrize("first", ["decode-0", "prefill-1-0-0"])
def test_a_request_that_succeeds_at_decode_must_not_fail_elsewhere(first: str) -> None:
    told = Told()
    outcomes = {"decode-0": Ended(7, success=True), "prefill-1-0-0": Ended(7, success=False)}
    for name in (first, *(outcomes.keys() - {first})):
        told.say(name, outcomes[name])
    assert told.books.complaints == ["room 7: decode-0 has succeeded, and prefill-1-0-0 failed"]


def test_a_wrong_byte_is_a_complaint() -> None:
    told = Told()
    told.say("decode-0", Ended(7, success=True, corrupt=True))
    assert told.books.complaints == [
        "decode-0, room 7: a page holds other bytes than were sent"]


def test_the_page_lists_every_complaint() -> None:
    books = Books(routed=1, complaints=["decode-0 holds 1 lives"])
    told = page(SoakResult(books, {"kills": 1}, {}, 0, 1.0), "pdproto soak", "abc")
    assert "commit abc: 1 complaints." in told
    assert told.endswith("* decode-0 holds 1 lives\n")


def test_messages_are_lost_and_doubled_at_the_given_rates() -> None:
    fates = Counter(map(Weather(1, lost=0.25, doubled=0.25), ["listener"] * 1000))
    assert fates.keys() == {LOST, DOUBLED, PASSES}
    assert all(200 < fates[fate] < 300 for fate in (LOST, DOUBLED))
    assert {*map(Weather(1), ["listener"] * 100)} == {PASSES}


def test_the_command_refuses_an_unknown_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soak", "--engine", "carrier-pigeon"]) == 2
    assert "carrier-pigeon" in capsys.readouterr().err
