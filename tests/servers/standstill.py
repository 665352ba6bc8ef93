"""Servers that stand still while requests are in flight, and go on: who, how, and for how long.

The cells of an engine assert what becomes of the requests. A table of the same standstills compares
our backend with the engine's own one (`--standstills` measures it).
"""

import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from tests.servers.load import Answer, Way, asks, send, send_and_kill
from tests.servers.reference import Reference

IN_FLIGHT: Final = 150
MEANWHILE: Final = 40  # further requests come
ASKED: Final = asks(IN_FLIGHT + MEANWHILE)
PATIENCE_S: Final = 60.0  # a request that has no end so long after the server has gone on hangs
TENTH_S: Final = 0.01, 0.09  # a server runs and rests, in turns
STUTTER_S: Final = 0.1, 6.0  # it rests for longer than makes a peer suspected
SERVES_AGAIN: Final = 40  # requests
LENGTHS_S: Final = (3.0, 8.0, 20.0, 40.0)
LENGTH: Final = 200  # of a reason that is kept
MEASURED: Final = Path(__file__).with_name("standstills.json")
OURS: Final = "pdproto"
HEAD: Final = f"""
## Who stands still for how long

`python -m tests.servers --standstills` and `python -m tests.vllm_servers --standstills` stop a
server (SIGSTOP) when the first of {IN_FLIGHT} requests are answered, send {MEANWHILE} more, have
it go on (SIGCONT), and write this table: with our backend, and with the engine's own one. A server
that runs in a tenth of the time is stopped for 90 ms in 100. The times are those of two cores on
which much else ran.

| engine | what happens | with pdproto | with its own backend |
|---|---|---|---|
"""

Signal = Callable[[signal.Signals], None]  # to the processes of a server, or of a part of it


class How(NamedTuple):
    """name: as in "prefill NAME for 8 s". do: returns after so many seconds, when it is over."""

    name: str
    do: Callable[[Signal, float], None]


def _stop(send: Signal, seconds: float) -> None:
    try:
        send(signal.SIGSTOP)
        time.sleep(seconds)
    finally:
        send(signal.SIGCONT)


def _in_turns(send: Signal, seconds: float, runs: float, rests: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _stop(send, rests)
        time.sleep(runs)


def _hold(send: Signal, seconds: float) -> None:
    """The server knows for how long: see hooks.py."""
    send(signal.SIGRTMIN)
    time.sleep(seconds)


STANDS_STILL: Final = How("stands still", _stop)
IS_STARVED: Final = How("runs in a tenth of the time", lambda send, seconds: _in_turns(
    send, seconds, *TENTH_S))
STUTTERS: Final = How("runs for 0.1 s in 6 s", lambda send, seconds: _in_turns(
    send, seconds, *STUTTER_S))
HOLDS: Final = How("holds its interpreter", _hold)


@dataclass(frozen=True, slots=True)
class Standstill:
    """who: prefill, decode, or another name that a pair's `signals` have."""

    who: str
    seconds: float
    how: How = STANDS_STILL

    def __str__(self) -> str:
        return f"{self.who} {self.how.name} for {self.seconds:g} s"

    def meet(self, way: Way, reference: Reference, signals: Mapping[str, Signal]) -> "Outcome":
        """Send requests, have the server stand still when the first ones are answered, and send
        more meanwhile.
        """
        patience_s, went_on = self.seconds + PATIENCE_S, list[float]()
        later: list[Future[list[Answer]]] = []
        with ThreadPoolExecutor(1) as client:
            def stand_still() -> None:
                later.append(client.submit(
                    send, way, ASKED[IN_FLIGHT:], in_flight=MEANWHILE, seconds=patience_s))
                self.how.do(signals[self.who], self.seconds)
                went_on.append(time.monotonic())

            answers, _ = send_and_kill(way, ASKED[:IN_FLIGHT], stand_still, seconds=patience_s)
            answers += later[0].result()
        whys = Counter(why for one in answers if (why := one.error or one.prefill_error))
        hung = sum(one.hung for one in answers)
        failed = sum(bool(one.error or one.prefill_error) and not one.hung for one in answers)
        return Outcome(len(ASKED), failed, hung, len(reference.compare(ASKED, answers).wrong),
                       max(one.at for one in answers) - went_on[0],
                       whys.most_common(1)[0][0] if whys else "")


def of_table(who: Sequence[str], only: Collection[str]) -> list[Standstill]:
    """What the table compares. only: these; all if there are none."""
    every = [*(Standstill(one, seconds) for one in who for seconds in LENGTHS_S),
             *(Standstill(one, 20.0, IS_STARVED) for one in who)]
    return [one for one in every if not only or f"{one}" in only]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the requests. wrong: answers. last_s: when the last one had ended, in seconds
    after the server went on. why: most of those say that failed. left: what the servers hold
    afterwards. serves: requests that come then are served.
    """

    requests: int
    failed: int
    hung: int
    wrong: int
    last_s: float
    why: str = ""
    left: str = ""
    serves: bool = True

    @property
    def is_whole(self) -> bool:
        return not (self.failed or self.hung or self.wrong)

    @property
    def survives(self) -> bool:
        """Whether nothing is lost, and the servers go on."""
        return self.is_whole and not self.left and self.serves

    def __str__(self) -> str:
        told = [f"{count} {word}" for count, word in (
            (self.failed, "fail"), (self.hung, "hang"), (self.wrong, "are wrong")) if count]
        if not told:
            told = [f"all are served, the last {max(0.0, self.last_s):.0f} s after it"]
        return ", ".join([*told, *([f"afterwards held: {self.left}"] if self.left else []),
                          *(["no later request is served"] if not self.serves else [])])


class Pair(Protocol):
    """The servers of a layout."""

    @property
    def through(self) -> Way: ...

    def left(self) -> str:
        """What they hold when they should hold nothing; "" if they do not."""
        ...


P = TypeVar("P", bound=Pair)


def measure(engine: str, backend: str, what: Sequence[Standstill], pair_of: Callable[[], P],
            meet: Callable[[P, Standstill], Outcome], end: Callable[[], None]) -> None:
    """Replaces what the file has of these. end: the servers that run, which the next standstill
    does not meet if something is left there.
    """
    for one in what:
        pair = pair_of()
        found = meet(pair, one)
        left = pair.left()
        after = send(pair.through, asks(SERVES_AGAIN), in_flight=SERVES_AGAIN)
        found = replace(found, left=left, serves=all(answer.is_full for answer in after),
                        why=found.why[:LENGTH])
        sys.stdout.write(f"{engine}, {backend}: {one}: {found} {found.why}\n")
        sys.stdout.flush()
        known = measured()
        known.setdefault(engine, {}).setdefault(backend, {})[f"{one}"] = asdict(found)
        MEASURED.write_text(json.dumps(known, indent=1) + "\n")
        if left or not found.serves:
            end()
    end()


def table() -> str:
    """A section of a page: an engine's own backends beside ours."""
    rows = []
    for engine, seen in measured().items():
        ours, others = seen.get(OURS, {}), [name for name in seen if name != OURS]
        for one, found in ours.items():
            theirs = "; ".join(f"{Outcome(**seen[other][one])} ({other})"
                               for other in others if one in seen[other]) or "not yet"
            rows.append(f"| {engine} | {one} | {Outcome(**found)} | {theirs} |\n")
    return HEAD + "".join(rows) if rows else ""


def lost_alone() -> list[str]:
    """The standstills that an engine's own backend survives and ours does not, and those of which
    only one backend is measured.
    """
    found = []
    for engine, seen in measured().items():
        for one in sorted({one for outcomes in seen.values() for one in outcomes}):
            of = {name: Outcome(**outcomes[one]) for name, outcomes in seen.items()
                  if one in outcomes}
            if of.keys() != seen.keys() or (
                    not of[OURS].survives and any(other.survives for other in of.values())):
                found.append(f"{engine}: {one}: {'; '.join(f'{of[k]} ({k})' for k in of)}")
    return found


def measured() -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """By the engine, the backend and the standstill: an outcome."""
    found: dict[str, dict[str, dict[str, dict[str, Any]]]] = (
        json.loads(MEASURED.read_text()) if MEASURED.exists() else {})
    return found
