"""A timer is fair in the tables exactly if nodes fire it by default: no promise rests on another.
"""

from dataclasses import replace
from math import isinf

import pytest

from pdproto.check.result import Verdict
from pdproto.cli.systems import load
from pdproto.node.link import Link
from pdproto.spec.catalogue import HANDOFF
from pdproto.spec.handoff.ends import RECEIVING_ENDED
from pdproto.spec.handoff.timers import WAITS
from pdproto.spec.handoff.transfer import SYSTEM
from pdproto.spec.language import LeadsTo, ReplaceProperties, Timer, edited
from tests.handoff.exploring import judged

HANDOFF_WAITS = {"bootstrap_timeout", "queue_timeout", "transfer_timeout", "registry_unreachable",
                 "no_decode", "unresolved"}  # a request ends with them


def timed(name: str) -> dict[str, bool]:
    """Whether each row of the system on a timer is fair: by `timer: row`."""
    return {f"{row.on.name}: {row.name}": row.is_fair
            for table in load(name).tables for row in table.rows if isinstance(row.on, Timer)}


@pytest.mark.parametrize("name", HANDOFF)
def test_a_timer_that_is_infinite_by_default_is_not_fair_and_every_other_is(name: str) -> None:
    assert timed(name) == {row: not isinf(WAITS[row.partition(":")[0]].seconds)
                           for row in timed(name)}


def test_each_timer_has_a_row_somewhere() -> None:
    assert {row.partition(":")[0] for name in HANDOFF for row in timed(name)} == set(WAITS)


def test_a_request_waits_at_least_as_long_as_for_a_peer_that_stands_still() -> None:
    """A suspected peer fails no request before the operator's bound: also no other clock does. Seen
    red with the 10 s for which a look-up waited for its registry.
    """
    assert {name for name in HANDOFF_WAITS if WAITS[name].seconds < Link().absent_s} == set()
    ends = {name for name, wait in WAITS.items() if not wait.again and (
        "fails" in wait.leads_to or "gives the room up" in wait.leads_to)}
    assert ends - {"heartbeat"} == HANDOFF_WAITS, "heartbeat: the bound itself"


def test_a_request_may_wait_for_memory_that_is_in_quarantine() -> None:
    """Without a bound of the queue nothing ends its wait, so the promise excepts it."""
    (promised,) = (one for one in SYSTEM.properties if one.name == "L1_a_sink_ends")
    assert isinstance(promised, LeadsTo)
    without_exception = edited(SYSTEM, "without-exception", ReplaceProperties((
        replace(promised, goal=RECEIVING_ENDED),)))
    unfenced = replace(SYSTEM.configurations["no-fence"], faults=())  # nobody need die for it
    strict, excepted = (judged(system, promised.name, unfenced)
                        for system in (without_exception, SYSTEM))
    assert (strict.verdict, excepted.verdict) == (Verdict.VIOLATED, Verdict.HOLDS)
