"""Groups whose frames get lost, whose clients give up at any time, and whose ranks die."""

import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from pdproto.group.group import Group
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.wire import Admit, AnyFrame, Closed, Life, Ready, Release
from tests.group.group_process import LINK
from tests.group.groups import Lossy, Ranks, Scheduler, ranks

ROOT = Path(__file__).resolve().parents[2]
FAST = {"no_votes": 0.05, "no_decision": 0.05, "no_confirmation": 0.05, "no_release": 0.05}


def chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - nothing secret


@pytest.mark.parametrize("seed", range(3))
def test_m4_1_lost_frames_are_repeated_and_applied_once(tmp_path: Path, seed: int) -> None:
    """A third of all frames is lost, everywhere."""
    with ranks(tmp_path, slots=3, kind=Lossy, waits=FAST) as group:
        for scheduler in group.schedulers:
            assert isinstance(scheduler.group, Lossy)
            scheduler.group.chance = chance(100 * seed + scheduler.group.me)
        group.schedulers[1].dead.update({3, 4})
        group.schedulers[2].late_dead.update({5, 6})
        group.schedulers[3].breaks.update({7, 8})
        requests = [group.submit(room) for room in range(20)]
        group.until_answered(*requests)
        group.until_idle()
        group.assert_same_decisions()
        refused = {r.life.room for r in requests if r.answer and not r.answer.served}
        assert refused == {3, 4, 5, 6, 7, 8}
        assert all(s.group.lost > 10 for s in group.schedulers if isinstance(s.group, Lossy))


@pytest.mark.parametrize("seed", range(4))
def test_m4_2_aborts_at_random_moments_answer_each_client_once(
    tmp_path: Path, seed: int
) -> None:
    random_ = chance(seed)
    with ranks(tmp_path, slots=3) as group:
        for scheduler in group.schedulers:
            scheduler.dead.update(room for room in range(60) if random_.random() < 0.05)
            scheduler.late_dead.update(room for room in range(60) if random_.random() < 0.05)
            scheduler.breaks.update(room for room in range(60) if random_.random() < 0.05)
            scheduler.holds.update(room for room in range(60) if random_.random() < 0.1)
        requests = []
        for room in range(60):
            requests.append(group.submit(room))
            victim = random_.choice(requests)
            if random_.random() < 0.4:
                group.entry.abort(victim, "the client has gone")
            for scheduler in random_.sample(group.schedulers, random_.randrange(5)):
                scheduler.turn()
        for request in requests:
            group.entry.abort(request, "the client has gone")
        group.until_answered(*requests)
        group.until_idle()
        group.assert_same_decisions()
        assert sorted(request.life.room for request in group.answered) == list(range(60))
        for request in requests:
            assert request.answer is not None
            assert request.answer.served == (not request.answer.reason)


def test_m4_2_a_rank_that_falls_silent_ends_the_group(tmp_path: Path) -> None:
    with ranks(tmp_path) as group:
        group.schedulers[3].holds.update(range(5))
        group.schedulers[3].runs = False
        waiting = [group.submit(room) for room in range(5)]
        running = group.submit(9)
        group.until(lambda: all(s.running for s in group.schedulers))
        group.schedulers.pop().group.close()
        group.until_answered(*waiting, running)
        (reason,) = {r.answer.reason for r in [*waiting, running] if r.answer}
        assert reason.startswith("rank 3 is gone: ")
        group.until(lambda: all(s.group.ended for s in group.schedulers))
        assert group.gauges() == {}
        with pytest.raises(LocalProtocolError, match=r"has ended: prefill\.3 is gone"):
            group.submit(10)
        # What crosses the end of the group is void, on every rank.
        for scheduler in group.schedulers:
            scheduler.group.transferred(running.life)
        group.entry.abort(waiting[0])
        assert len(group.answered) == 6


def test_m4_2_an_entry_that_falls_silent_ends_the_group(tmp_path: Path) -> None:
    """Its clients have lost it too; the other ranks keep nothing."""
    with ranks(tmp_path) as group:
        for scheduler in group.schedulers:
            scheduler.runs = False
        group.submit(9)
        group.until(lambda: all(s.running for s in group.schedulers))
        group.schedulers.pop(0).group.close()
        group.until(lambda: all(s.group.ended for s in group.schedulers))
        assert group.gauges() == {}


@contextmanager
def processes(folder: Path, count: int) -> Iterator[dict[int, "subprocess.Popen[str]"]]:
    """The ranks from 1 on, each in a process of its own."""
    started = {
        index: subprocess.Popen(
            [sys.executable, "-m", "tests.group.group_process", str(folder), str(count),
             str(index)],
            cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for index in range(1, count)
    }
    try:
        for process in started.values():
            assert output(process).readline() == "ready\n"
        yield started
    finally:
        for process in started.values():
            process.kill()
            process.communicate()


def output(process: "subprocess.Popen[str]") -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def entry_here(folder: Path, count: int) -> Ranks:
    endpoints = {index: f"ipc://{folder}/{index}" for index in range(count)}
    return Ranks([Scheduler(Group("prefill", endpoints, me=0, slots=4, stop=lambda _: True,
                                  link=LINK))])


def test_m4_2_a_rank_is_killed_and_every_client_is_answered(tmp_path: Path) -> None:
    with processes(tmp_path, 4) as others:
        group = entry_here(tmp_path, 4)
        try:
            served = [group.submit(room) for room in range(20)]
            group.until_answered(*served)
            assert {r.answer.status for r in served if r.answer} == {200}
            stuck = [group.submit(room) for room in range(1000, 1010)]
            others[2].send_signal(signal.SIGKILL)
            group.until_answered(*stuck)
            (reason,) = {r.answer.reason for r in stuck if r.answer}
            # Whoever notices ends as well, and may be missed before the one that was killed.
            assert re.match(r"rank [123] is gone: ", reason)
            assert group.gauges() == {}
            for index in (1, 3):
                said = json.loads(output(others[index]).readline())
                assert re.match(r"prefill\.[0-3] is gone: ", said["ended"])
                assert said["gauges"] == {}
                # Every rank has applied what the entry's own rank has, in its order.
                mine = [[d.number, d.verdict.value, d.life.room]
                        for d in group.schedulers[0].applied]
                assert said["applied"] == mine[:len(said["applied"])]
                assert len(said["applied"]) >= 20
        finally:
            group.entry.close()


def tell(group: Group, to: str, *frames: AnyFrame) -> None:
    def say() -> None:
        for frame in frames:
            group._core.say(group._core.peers[to], frame)

    group._core.ask(say)


def test_frames_that_a_rank_may_not_send_are_refused(tmp_path: Path) -> None:
    """Each is dropped and counted, and nothing else happens."""
    with ranks(tmp_path, count=3) as group:
        entry, other = group.entry, group.schedulers[1].group
        foreign = Life(7, 99, 0)
        unknown = Life(7, entry._core.incarnation, 50)
        tell(other, "prefill.0", Ready(unknown), Ready(foreign), Release(unknown, 0))
        group.until(lambda: entry.metrics.read()["refused_frames"] == 3)
        tell(entry, "prefill.1", Admit(foreign, 0, 0), Admit(unknown, 0, 0), Closed(unknown))
        group.until(lambda: other.metrics.read()["refused_frames"] == 3)
        group.until_answered(group.submit(7))
        group.until_idle()
        group.assert_same_decisions()
        for scheduler in group.schedulers:
            scheduler.group.metrics.add("refused_frames",
                                        -scheduler.group.metrics.read()["refused_frames"])


def test_a_stranger_is_no_rank(tmp_path: Path) -> None:
    with ranks(tmp_path, count=2, strangers={"prefill.5"}) as group:
        endpoints = {0: f"ipc://{tmp_path}/0", 5: f"ipc://{tmp_path}/5"}
        stranger = Group("prefill", endpoints, me=5, slots=1, stop=lambda _: True)
        try:
            group.until(lambda: group.entry._core.malformed.get("prefill.5", 0) > 0)
            group.until_answered(group.submit(7))
            group.until_idle()
        finally:
            stranger.close()


@pytest.mark.parametrize("bad", [{"me": 4}, {"entry": 4}, {"slots": 0}, {"waits": {"nap": 1.0}}])
def test_nonsense_is_refused_at_once(tmp_path: Path, bad: dict[str, object]) -> None:
    arguments = {"me": 0, "slots": 1, "stop": lambda _: True} | bad
    with pytest.raises(ValueError, match=r"both must be in|can be admitted|no timer"):
        Group("prefill", {0: f"ipc://{tmp_path}/0"}, **arguments)  # type: ignore[arg-type]  # on purpose
