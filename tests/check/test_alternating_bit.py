"""The alternating bit: the states of a model without tables, and the shortest wrong run."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.spec.examples import alternating_bit, alternating_bit_broken
from pdproto.spec.examples.alternating_bit import Item, Turn
from pdproto.spec.language import Configuration

NONE: Final = -1


class Run(NamedTuple):
    """A state: the items sent and acknowledged, turn by turn, and how far both sides are."""

    sent: tuple[int, ...] = ()
    acked: tuple[int, ...] = ()
    current: int = NONE
    newest: int = NONE
    heard: int = NONE
    arrived: int = NONE


def steps(run: Run, items: int, turns: int) -> Iterator[Run]:
    """The states after one step."""
    if run.current == NONE:
        yield run._replace(current=0)
    elif len(run.sent) < turns:
        yield run._replace(sent=(*run.sent, run.current))
    if run.newest != NONE and len(run.acked) < turns:
        yield run._replace(acked=(*run.acked, run.newest))
    for turn, item in enumerate(run.sent):
        if turn >= run.arrived:
            new = item % 2 == (run.newest + 1) % 2
            yield run._replace(arrived=turn, newest=item if new else run.newest)
    for turn, item in enumerate(run.acked):
        if turn >= run.heard:
            goes_on = item % 2 == run.current % 2 and run.current + 1 < items
            yield run._replace(heard=turn, current=run.current + goes_on)


@pytest.mark.parametrize(("items", "turns"), [(1, 2), (2, 3), (3, 4), (4, 4)])
def test_it_has_the_states_of_a_model_without_tables(items: int, turns: int) -> None:
    seen, new = {Run()}, {Run()}
    while new:
        new = {after for run in new for after in steps(run, items, turns)} - seen
        seen |= new
    sizes = Configuration({Item: items, Turn: turns})
    settings = CheckSettings(properties=("items_arrive_in_order",))
    assert check(alternating_bit.SYSTEM, sizes, settings).states == len(seen)


def test_a_late_packet_is_taken_for_the_next_item() -> None:
    """Begin, an item and its acknowledgement, the next item: then the first packet comes again."""
    default = alternating_bit.SYSTEM.configurations["default"]
    settings = CheckSettings(properties=("even_items_arrive_once",))
    finding = next(f for f in check(alternating_bit_broken.SYSTEM, default, settings).findings
                   if f.name == "even_items_arrive_once")
    assert finding.trace is not None
    assert [step.row for step in finding.trace.steps] == [
        "begin", "send", "take_even", "acknowledge", "advance", "send", "take_odd"]
