"""Defects of the checker that the oracle notices: each is put in, and makes a difference."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pdproto.check import checking, explore, liveness, questions, refining
from pdproto.ground import channels, grounding
from pdproto.spec.language import Row, elements
from pdproto.spec.language.symbols import Each, sent_by
from tests.oracle.answers import answer
from tests.oracle.compare import WAYS, differences
from tests.oracle.judged import STATES_MAX
from tests.oracle.search import TooManyError
from tests.oracle.systems import ABOVE, STRONG, draw


def nothing(*_: object) -> Iterator[Any]:
    yield from ()


def sent_to_all(self: grounding.Grounder, row: Row, env: Any) -> Iterator[Any]:
    """As the grounder does it, without `where`."""
    for effect in row.send:
        envs = self.environments((effect.variable,)) if isinstance(effect, Each) else [{}]
        for inner in envs:
            sent = sent_by(effect)
            yield sent.message, self.cell(sent.arguments, {**env, **inner})


DEFECTS: dict[str, tuple[object, str, Any]] = {
    "safety nets are fair": (
        liveness, "is_fair", lambda row, _: not row.layer and row.row.is_fair),
    "calls are fair": (liveness, "is_fair", lambda row, _: not row.layer),
    "a broadcast has one receiver": (grounding, "delivery_marks", lambda *_: {}),
    "a function into a sort keeps its old value": (
        elements.ElementFunction, "plain", lambda _, update: (update,)),
    "no state is final": (explore, "final_guards", lambda _: ()),
    "carried relations may change": (questions, "_late_writes", nothing),
    "edges are not judged": (questions, "forbidden_moves", nothing),
    "no premise is looked for": (questions, "_premise", lambda _: None),
    "each sends to all": (grounding.Grounder, "sent", sent_to_all),
    "a message waits in any place of its channel": (channels.Queues, "_is_long", nothing),
    "strong fairness is weak": (Row, "is_strong", property(lambda _: False)),
    "a system above has every step": (refining.Refinement, "allows", lambda *_: True),
    "a system above starts anywhere": (refining.Refinement, "starts", lambda *_: ""),
    "the longest of several topologies": (
        checking, "merged", lambda found: max(found, key=lambda f: f.trace_length or 0)),
}


# For each defect a seed with a system that shows it. After a change of what is drawn:
# `python -m tests.oracle.defects` finds other ones.
SEEDS = {
    "safety nets are fair": 104,
    "calls are fair": 5,
    "a broadcast has one receiver": 872,
    "a function into a sort keeps its old value": 53,
    "no state is final": 10,
    "carried relations may change": 9,
    "edges are not judged": 12,
    "no premise is looked for": 2,
    "each sends to all": 9,
    "a message waits in any place of its channel": 5,
    "strong fairness is weak": STRONG + 2,
    "a system above has every step": ABOVE + 3,
    "a system above starts anywhere": ABOVE + 19,
    "the longest of several topologies": 39,
}
MOST = 2_000


def differs(seed: int) -> list[str]:
    """The differences of the native engine for the system of a seed."""
    system, configuration = draw(seed)
    try:
        expected = answer(system, configuration, STATES_MAX)
    except TooManyError:
        return []
    return list(differences(system, configuration, expected, WAYS[0])) if expected.worlds else []


@contextmanager
def put_in(name: str) -> Iterator[None]:
    """The checker has the defect inside this context."""
    where, word, instead = DEFECTS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, word, instead)
        yield


def main() -> None:
    """Print the first seed that shows each defect."""
    for name in DEFECTS:
        with put_in(name):
            found = next(filter(differs, (
                *range(MOST), *range(ABOVE, ABOVE + MOST), *range(STRONG, STRONG + MOST))), None)
        sys.stdout.write(f"    {name!r}: {found},\n")


if __name__ == "__main__":
    main()
