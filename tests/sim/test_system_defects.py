"""Historical defects of every table, in virtual time: the seed by which the simulator sees each.

Beside each the same run of the system that it is an edit of, in which nothing at all is violated.
"""

import sys
from functools import cache
from random import Random
from typing import Final

import pytest

from pdproto.cli.systems import BUILT_IN, load
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.spec.language.system import System
from pdproto.testing.simulated import SimulatedSystem
from tests.sim.test_system import STORES

# By the name of the system with the defect. A seed changes with the tables and the timing: look at
# what has changed, and then take what `python -m tests.sim.test_system_defects NAME ...` prints.
SEEDS: Final = {
    "failed-lookup-lifted": 0, "bootstrap-info-undefined": 0, "concluded-room-recreated": 0,
    "no-heartbeat": 2, "no-bootstrap-timeout": 7, "stale-cache-kept": 1021,
    "blacklist-never-shrinks": 224, "send-failure-ignored": 687, "handshake-cannot-fail": 0,
    "half-cache-reused": 128, "half-cache-kept": 5, "registrations-counted": 0, "no-expiry": 8,
    "address-without-incarnation": 2, "rank-guessed": 76, "only-conflicts-published": 71,
    "query-ignored": 27, "query-in-vain": 665, "first-rank-speaks-for-all": 1,
    "conflict-unsaid": 81, "misplaced-served": 4, "other-rank-number": 76,
    "rank-without-address": 0, "no-address-unsaid": 300,
    "struck-out-for-good": 30, "refused-for-its-clock": 70, "goodbye-of-an-earlier-run": 2,
    "first-come-on-each-rank": 6, "failed-by-its-predecessor": 0, "request-of-a-dead-life": 2,
    "use-not-passed-on": 51, "prompt-not-compared": 3, "prompt-of-a-number-not-compared": 2,
    "mix-up-told-to-decode-alone": 14, "B05": 12,
    "B05-worker": 84, "B22": 206, "R1": 12, "R2": 12, "B27": 132, "B41": 12, "B54": 12,
    "B54-skipped": 1225, "B74": 192, "R19": 12, "B23": 1, "B23-fan-out": 171, "B23-cleared": 2397,
    "B46": 5, "copy-runs-on": 206, "B36": 12, "B43": 32, "B62": 12, "B49": 24, "B09": 0,
    "B10": 299, "B15": 32, "B40": 100, "R8a": 2998, "R25": 8422, "B31": 289, "B51": 49, "B52": 231,
    "B50": 1349, "R4": 1721, "R5": 49, "R3": 884, "R22": 3322, "B28": 63, "B38": 32,
    "B38-pages": 1146, "queue-timed": 2, "queue-timed-by-decode": 2, "silence-as-abort": 58,
    "fence-untold": 2396, "silence-as-death": 0, "silence-of-a-sink-as-death": 0,
    "fenced-and-forgotten": 13081, "B64": 1379, "R12": 12, "B57-transfer": 86, "R19-restart": 1748,
    "B29-transfer": 299, "B30-transfer": 32,
    "two-pass": 9, "two-pass-local-drain": 0, "two-pass-no-second-look": 2, "agreement-B06": 512,
    "agreement-B08": 0, "agreement-B13": 23, "agreement-B14": 0, "agreement-B36-ranks": 47,
    "agreement-B38-ranks": 47, "agreement-B56": 7, "agreement-local-drain": 0,
    "agreement-early-decision": 4, "agreement-early-drop": 62, "B03": 29, "B32": 29,
    "B32-slots": 29, "B32-seats": 29, "B32-budget": 29, "B32-slot-kept": 29,
    "B32-slot-leak": 3, "B36-optimistic": 6, "O1": 3, "O2": 1, "O2-slot": 10, "O5": 14,
    "O5-endless": 7, "B07-attempts": 218, "O5-dice": 17, "O5-later": 27, "B06-attempts": 2,
    "B36-attempts": 12, "early-yield": 44, "report-once": 822,
    "decision-once": 7, "B38-attempts": 32, "B02-transfer": 0,
    "B28-transfer": 13507, "successor": 84595, "B16": 86, "B62-pass": 224, "refused-late": 43,
    "abort-in-quarantine": 2396, "met-by-any": 1123, "queue-timeout-unmet": 0,
    "group-free": 664, "empty-before-confirmed": 31, "O6": 3,
    "O6-forced": 23, "I1": 7238, "I2": 87,
    "keep-ends-under-a-read": 2, "keep-without-a-clock": 45, "keep-without-a-bound": 3420,
    "keep-loses-a-place": 11, "keep-waits-after-the-end": 5, "keep-serves-another-prompt": 0,
    "keep-refuses-in-silence": 5,
    "ended-waits-for-a-clock": 1, "ended-refuses-what-is-computed-again": 0,
    "ended-refuses-beside-a-request": 5, "ended-forgets-under-a-leg": 0,
    "memory-refuses-what-comes-back": 589, "memory-waits-for-nothing": 7,
    "memory-refuses-pages-that-settle": 7, "memory-waits-for-a-page-given-twice": 47,
    "answer-while-it-computes": 5, "read-after-preemption": 2552, "freed-at-abort": 2,
}
# Not met in 3,000 runs. What B07 adds is a second row on a trigger, and an end takes the first.
MISSED: Final = {
    "agreement-B07", "agreement-B11", "agreement-B20", "agreement-B61", "agreement-local-slot",
    "prompts-in-one-order",
}
# It is wrong as a whole: there is no row to be undone that would leave it sound.
ANOTHER_PROTOCOL: Final = {"two-pass", "two-pass-local-drain", "two-pass-no-second-look"}
CASES: Final = {bug.system.name: bug for bug in BUGS if bug.system.name not in MISSED}


@cache
def shipped() -> tuple[System, ...]:
    """Those that are no defect as they stand."""
    return tuple(load(name) for name in BUILT_IN if name not in CASES)


def distance(one: System, other: System) -> int:
    """How many rows are in one of them only."""
    return sum(
        sum(row not in right.rows for row in left.rows)
        + sum(row not in left.rows for row in right.rows)
        for left, right in zip(one.every_table, other.every_table, strict=True))


def base_of(system: System) -> System:
    """The shipped system that this one is an edit of: it differs, and least of all."""
    machines = [table.machine for table in system.every_table]
    alike = [other for other in shipped()
             if [table.machine for table in other.every_table] == machines]
    return min((other for other in alike if distance(system, other)),
               key=lambda other: distance(system, other))


def defective(name: str) -> SimulatedSystem:
    """The system with this defect, judged by the property that it violates."""
    bug = CASES[name]
    return SimulatedSystem(bug.system, bug.configuration, Random, stores=STORES,
                           properties=frozenset({bug.violates}))


def test_every_defect_is_here() -> None:
    assert SEEDS.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_it_is_caught(name: str) -> None:
    bug = CASES[name]
    found = defective(name).run(SEEDS[name])
    assert found.finding is not None, f"seed {SEEDS[name]} no longer meets it: see SEEDS"
    assert found.finding.name == bug.violates
    if name in ANOTHER_PROTOCOL:
        return
    base = base_of(bug.system)
    asked = frozenset(one.name for one in base.properties)
    sound = SimulatedSystem(base, bug.configuration, Random, stores=STORES, properties=asked)
    assert sound.run(SEEDS[name]).finding is None


if __name__ == "__main__":
    for name in sys.argv[1:]:
        run = defective(name).first_violation(range(20_000))
        sys.stdout.write(f"    {name!r}: {run and run.seed},\n")
