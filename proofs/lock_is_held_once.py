"""Claim: two clients never hold the lock at once, however many clients and rounds.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/lock_server_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: nothing of the network: messages are lost, repeated and
reordered.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a client that enters on
the grant of an old lease.
"""

from pdproto.spec.examples.lock_server import SYSTEM as LOCK
from pdproto.spec.examples.lock_server import Lease, c, lease, r
from pdproto.spec.language import DropClause, edited
from tests.prove import standing

SYSTEM = "lock-server"


def test_it_holds_for_all_sizes() -> None:
    standing.is_proved(SYSTEM)


def test_it_is_about_something() -> None:
    standing.is_about_something(SYSTEM)


def test_no_lemma_is_idle() -> None:
    standing.has_no_idle_lemma(SYSTEM)


def test_a_defect_is_noticed() -> None:
    broken = edited(LOCK, "late", DropClause("enter", lease(c, r) == Lease.CURRENT))
    standing.is_refuted(SYSTEM, broken, "enter")
