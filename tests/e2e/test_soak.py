"""A soak: processes hold out while everything goes wrong, and what is wrong is told."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import pytest

from lab.__main__ import main
from lab.soak import chaos, memory, rounds
from lab.soak.books import Books, Totals
from lab.soak.cluster import SoakCluster, SoakProcess
from lab.soak.messages import Ended, Left, SoakRank
from lab.soak.network import Weather
from lab.soak.rank import decode, prefill
from lab.soak.report import SoakResult, page
from lab.soak.rounds import Make, run_soak
from lab.soak.state import SoakSettings, SoakState
from pdproto.drill.children import Child, Pipe
from pdproto.drill.handoff.load import Load, Pages
from pdproto.drill.handoff.rank import Pool
from pdproto.pages.host_copies import HostCopies
from pdproto.testing.proxy import DOUBLED, LOST, PASSES
from pdproto.transport.nodes import DecodeNode
from tests.waiting import until

SOAK = [sys.executable, "-m", "lab", "soak", "--quiet"]


def soaked(settings: SoakSettings, make: Make = SoakCluster) -> Totals:
    """The totals of a soak with these settings."""
    state = SoakState(settings=settings)
    run_soak(state, quiet=True, make=make)
    assert state.is_over
    return state.totals


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["shm", pytest.param("tcp", marks=pytest.mark.nightly)])
def test_a_soak_ends_without_complaints(engine: str, tmp_path: Path) -> None:
    """For a short while: nothing is lost, and faults there were."""
    ran = subprocess.run(
        [sys.executable, "-m", "lab", "soak", "--seconds", "8", "--engine", engine,
         "--quiet", "--json", "-", "--record", str(tmp_path / "soak.md")],
        capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    numbers = json.loads(ran.stdout)
    assert numbers["complaints"] == []
    assert numbers["succeeded"] > 0
    assert numbers["verified_bytes"] > 0
    assert numbers["faults"]
    told = (tmp_path / "soak.md").read_text()
    assert f"    python -m lab soak --seconds 8 --engine {engine} --quiet\n" in told
    assert f"| hand-overs | {numbers['handoffs']:,} |" in told


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


def slow_to_compare(place: SoakRank, pipe: Pipe) -> None:
    """A decode rank that takes 0.1 s longer to compare what has landed of a chunk."""
    right = HostCopies.unpack

    def unpack(copies: HostCopies, *arguments: Any) -> Any:
        time.sleep(0.1)
        return right(copies, *arguments)

    patch.object(HostCopies, "unpack", unpack).start()
    decode(place, pipe)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("bug", [None, "empty-before-confirmed"])
def test_no_request_fails_when_ranks_are_drained_and_replaced(
    monkeypatch: pytest.MonkeyPatch, bug: str | None
) -> None:
    """No other fault comes, and no client leaves: nothing may fail. With the defect, ranks end
    while decode still needs them: it is slow to compare, so it needs the first one that ends.
    """
    monkeypatch.setattr(chaos, "SHARES", {"drains": 1})
    monkeypatch.setattr(rounds, "ROUND_S", 10.0)
    kind = type("Faulty", (Faulty,), {"defect": slow_to_compare})
    totals = soaked(SoakSettings(seconds=20.0, abort_rate=0.0, bug=bug, engines=("shm",)), kind)
    assert totals.drained > 0
    if bug is None:
        assert totals.complaints == []
        assert totals.failed == 0
    else:
        assert totals.complaints
        assert all(re.fullmatch(
            r"room \d+: (prefill-\d-0-0) said that it was empty, its process was ended, and "
            r"decode-\d still needed it: lost connection to \1: it has been closed", told)
            for told in totals.complaints)


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
    settings = SoakSettings(prefill=1, decode=1, in_flight=4, engines=("shm",), seconds=3.0)
    totals = soaked(settings, kind)
    assert any(re.search(complaint, told) for told in totals.complaints)


def leaking(place: SoakRank, pipe: Pipe) -> None:
    """A decode rank that keeps 20,000 bytes of each hand-over."""
    kept, right = list[bytes](), DecodeNode.open

    def opened(node: DecodeNode, *arguments: Any, **named: Any) -> Any:
        kept.append(os.urandom(20_000))
        return right(node, *arguments, **named)

    patch.object(DecodeNode, "open", opened).start()
    decode(place, pipe)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("leaks", [True, False])
def test_a_soak_finds_a_leak_of_memory(leaks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same test as that of a million hand-overs, at a hundredth of its sizes and without
    faults.
    """
    monkeypatch.setattr(rounds, "ROUND_S", 0.5)
    monkeypatch.setattr(chaos, "BETWEEN_S", (1e6, 1e6))
    for name, size in (("LIMIT", 100 * memory.LIMIT), ("SPAN", memory.SPAN // 100),
                       ("WARM_UP", memory.WARM_UP // 100)):
        monkeypatch.setattr(memory, name, size)
    kind = type("Faulty", (Faulty,), {"defect": leaking if leaks else decode})
    totals = soaked(SoakSettings(decode=1, engines=("shm",), handoffs=2200), kind)
    assert [re.sub(r"\d[\d,]*", "N", told) for told in totals.complaints] == leaks * [
        "decode-N#N of leg N: its memory grows by N bytes per N hand-overs (N is the limit), "
        "over N hand-overs"]


def rooms_until(path: Path, handoffs: int, drill: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The state in a file, once it has so many hand-overs."""
    def state() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def has_them() -> bool:
        assert drill.poll() is None, "the drill has ended"
        return bool(found := state()) and found["totals"]["routed"] >= handoffs

    until(has_them, f"{path} has a state with {handoffs} hand-overs", within_s=120.0, look_s=0.1)
    return state()


def descendants(drill: subprocess.Popen[bytes]) -> Iterator[psutil.Process]:
    yield from psutil.Process(drill.pid).children(recursive=True)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_soak_that_is_killed_goes_on_from_its_last_rest(tmp_path: Path) -> None:
    """Both engines run. Nothing of the killed part is left, not even a process that was stopped."""
    path, told = tmp_path / "soak.json", tmp_path / "soak.md"
    command = [*SOAK, "--handoffs", "4000", "--engine", "shm", "tcp", "--resume", str(path),
               "--json", "-", "--record", str(told)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as drill:
        before = rooms_until(path, 100, drill)
        others = [*descendants(drill)]
        others[-1].suspend()
        drill.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(others, 30.0)
        assert alive == []
    assert before["runs"]
    assert json.loads(path.read_text())["totals"]["routed"] < 4000
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    numbers = json.loads(ran.stdout)
    assert numbers["complaints"] == []
    assert numbers["handoffs"] >= 4000
    assert (numbers["parts"], numbers["cut_off"]) == (2, 1)
    assert numbers["rests"] > before["rests"]
    assert sum(numbers["engines"].values()) == numbers["handoffs"]
    assert set(numbers["engines"]) == {"shm", "tcp"}
    assert "| runs of the command; cut off without a rest | 2; 1 |" in told.read_text()
    again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert json.loads(again.stdout) == numbers


@pytest.mark.nightly
@pytest.mark.slow
def test_a_part_of_a_soak_ends_at_a_rest_and_is_not_over(tmp_path: Path) -> None:
    path = tmp_path / "soak.json"
    ran = subprocess.run(
        [*SOAK, "--handoffs", "1000000", "--resume", str(path), "--stop-after", "3", "--json", "-"],
        capture_output=True, text=True, check=False, timeout=200)
    assert ran.returncode == 3, ran.stdout + ran.stderr
    numbers = json.loads(ran.stdout)
    assert not numbers["over"]
    assert (numbers["parts"], numbers["cut_off"]) == (1, 0)
    assert numbers["handoffs"] == json.loads(path.read_text())["totals"]["routed"] > 0


class Told(SoakCluster):
    """The books alone, of two sources and a sink that are not there."""

    def __init__(self) -> None:
        self.books = Books()  # type: ignore[misc]
        self.sources = ("prefill-0-0-0", "prefill-1-0-0")  # type: ignore[misc]
        self.sinks = ("decode-0",)  # type: ignore[misc]
        self._load = SoakSettings(abort_rate=0.0).load  # type: ignore[misc]
        none: Any = None
        self.members = {  # type: ignore[misc]
            name: SoakProcess(Child(name, none, Quiet()), name, "", open={7})  # type: ignore[arg-type]
            for name in (*self.sources, *self.sinks)}

    def say(self, name: str, *ended: Ended) -> None:
        self._take(self.members[name], [*ended])

    def leave(self, name: str, sure_from: int) -> None:
        self._take(self.members[name], Left(0, sure_from))


class Quiet:
    """The pipe of a rank that is not there."""

    def send(self, _: object) -> None:
        pass


def test_a_request_whose_ranks_agree_is_no_complaint() -> None:
    told = Told()
    for name in (*told.sources, *told.sinks):
        told.say(name, Ended(7, success=True))
    assert told.books.complaints == []
    assert told.books.totals.succeeded == 1
    assert told.books == Books(Totals(succeeded=1))


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


LOST_ONE = "lost connection to prefill-0-0-0: it has been closed"


@pytest.mark.parametrize(("sent", "sure_from", "reason", "complains"), [
    (True, 7, LOST_ONE, True),
    (False, 7, LOST_ONE, False),  # prefill has failed it, too
    (True, 8, LOST_ONE, False),  # it may have lost decode, and then does not wait for it
    (True, 7, LOST_ONE.replace("0-0-0", "1-0-0"), False),
    (True, 7, "the client has left", False),
])
def test_no_request_fails_by_the_end_of_a_rank_that_says_it_is_empty(
    sent: bool, sure_from: int, reason: str, complains: bool
) -> None:
    told = Told()
    told.say("prefill-0-0-0", Ended(7, success=sent))
    told.leave("prefill-0-0-0", sure_from)
    told.say("decode-0", Ended(7, success=False, reason=reason))
    assert told.books.complaints == complains * [
        f"room 7: prefill-0-0-0 said that it was empty, its process was ended, and decode-0 still "
        f"needed it: {reason}"]


DRAIN = "prefill-0-0-0: node prefill-0-0-0 drains, and takes no new request"
TIMEOUT = "bootstrap_timeout after 5 s"


@pytest.mark.parametrize(("reason", "later", "complains"), [
    (TIMEOUT, -1.0, False),  # it had failed before, so that the room was new to the rank
    (TIMEOUT, 0.02, False),  # at the same time, as far as pollers can see
    (TIMEOUT, 5.0, True),  # by its own clock, because decode has failed
    (None, 5.0, True),
])
@pytest.mark.parametrize("first", ["decode-0", "prefill-0-0-0"])
def test_a_request_is_not_refused_for_a_drain_unless_it_had_failed(
    first: str, reason: str | None, later: float, complains: bool
) -> None:
    """In either order of the two pipes."""
    told = Told()
    ended = {"decode-0": Ended(7, success=False, reason=DRAIN, at=100.0),
             "prefill-0-0-0": Ended(7, success=reason is None, reason=reason or "",
                                    at=100.0 + later)}
    told.say("prefill-1-0-0", Ended(7, success=False, reason="decode-0: it has failed", at=99.0))
    for name in (first, *(ended.keys() - {first})):
        told.say(name, ended[name])
    found = told.books.complaints
    assert len(found) == complains
    assert all(one.startswith(f"decode-0, room 7: {DRAIN}; ") for one in found)


def test_a_drain_fails_no_request_at_the_rank_that_drains() -> None:
    """The complaint names the outcome at the other ranks, and how long before or after it came."""
    told, why = Told(), "node prefill-0-0-0 drains, and takes no new request"
    told.say("prefill-0-0-0", Ended(7, success=False, reason=why, at=100.0))
    told.say("prefill-1-0-0", Ended(7, success=True))
    told.say("decode-0", Ended(7, success=False, reason=f"prefill-0-0-0: {why}", at=101.5))
    assert told.books.complaints == [
        f"prefill-0-0-0, room 7: {why}; decode-0 +1.5 s: {DRAIN}",
        f"decode-0, room 7: {DRAIN}; prefill-0-0-0 -1.5 s: {why}"]


def test_reasons_are_counted_without_the_names_of_ranks_and_are_not_too_many() -> None:
    told = Told()
    for reason in ("prefill-0-0-0: the client has left", "prefill-1-0-0: the client has left",
                   *(f"reason {number}" for number in range(200))):
        told.say("decode-0", Ended(7, success=False, reason=reason))
    reasons = told.books.totals.reasons
    assert reasons["the client has left"] == 2
    assert reasons["another reason"] == 101
    assert len(reasons) == 101


def test_the_page_lists_every_complaint() -> None:
    state = SoakState(settings=SoakSettings(), commits=["abc"],
                      totals=Totals(routed=1, complaints=["decode-0 holds 1 lives"]))
    told = page(SoakResult(state), "python -m lab soak")
    assert "commit abc: 1 complaints." in told
    assert told.endswith("* decode-0 holds 1 lives\n")


def test_the_page_of_a_soak_says_whether_it_is_over() -> None:
    state = SoakState(settings=SoakSettings(handoffs=1000), totals=Totals(routed=1))
    told = page(SoakResult(state), "python -m lab soak")
    assert told.startswith("# A soak of 1,000 hand-overs\n")
    assert "no complaints so far. The soak is not over" in told
    state.totals.routed = 1000
    assert "so far" not in page(SoakResult(state), "python -m lab soak")


class Struck(SoakCluster):
    """A cluster without processes, which notes the ranks that are killed and drained."""

    def __init__(self) -> None:
        self.sources = ("prefill-0-0-0", "prefill-1-0-0")  # type: ignore[misc]
        self.sinks = ("decode-0", "decode-1")  # type: ignore[misc]
        none: Any = None
        self.members = {  # type: ignore[misc]
            name: SoakProcess(Child(name, none, none), name, "", ready=True)
            for name in (*self.sources, *self.sinks)}
        self.struck = set[tuple[str, str]]()

    def kill(self, name: str) -> None:
        self.struck.add(("kill", name))

    def drain(self, name: str) -> None:
        self.struck.add(("drain", name))

    def start(self, name: str) -> None:
        pass


def test_a_spared_rank_is_neither_killed_nor_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos, "SHARES", {"drains": 1, "kills": 1})
    cluster = Struck()
    faults = chaos.Chaos(cluster, "0", Counter(), {"prefill-0-0-0", "decode-1"})
    for now in range(1, 200):
        faults.turn(3.0 * now)
    assert cluster.struck == {("kill", "prefill-1-0-0"), ("drain", "prefill-1-0-0"),
                              ("kill", "decode-0")}


def test_messages_are_lost_and_doubled_at_the_given_rates() -> None:
    fates = Counter(map(Weather(1, lost=0.25, doubled=0.25), ["listener"] * 1000))
    assert fates.keys() == {LOST, DOUBLED, PASSES}
    assert all(200 < fates[fate] < 300 for fate in (LOST, DOUBLED))
    assert {*map(Weather(1), ["listener"] * 100)} == {PASSES}


def test_the_command_refuses_an_unknown_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soak", "--engine", "carrier-pigeon"]) == 2
    assert "carrier-pigeon" in capsys.readouterr().err
