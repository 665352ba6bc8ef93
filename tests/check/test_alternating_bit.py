"""The alternating bit: the states of a model without tables, and the shortest wrong run."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Verdict
from pdproto.spec.examples import alternating_bit, alternating_bit_broken
from pdproto.spec.examples.alternating_bit import Item, Place
from pdproto.spec.language import Configuration, DropRow, edited

NONE: Final = -1


class Run(NamedTuple):
    """A state: the items on both links, the first one first, and how far both sides are."""

    data: tuple[int, ...] = ()
    acks: tuple[int, ...] = ()
    current: int = NONE
    newest: int = NONE


def steps(run: Run, items: int, places: int, *, lossy: bool) -> Iterator[Run]:
    """The states after one step."""
    if run.current == NONE:
        yield run._replace(current=0)
    elif len(run.data) < places:
        yield run._replace(data=(*run.data, run.current))
    if run.newest != NONE and len(run.acks) < places:
        yield run._replace(acks=(*run.acks, run.newest))
    if run.data:
        item, *others = run.data
        taken = run._replace(data=tuple(others))
        new = item % 2 == (run.newest + 1) % 2
        yield taken._replace(newest=item) if new else taken
        if lossy:
            yield taken
    if run.acks:
        item, *others = run.acks
        heard = run._replace(acks=tuple(others))
        goes_on = item % 2 == run.current % 2 and run.current + 1 < items
        yield heard._replace(current=run.current + goes_on)
        if lossy:
            yield heard


@pytest.mark.parametrize("lossy", [True, False])
@pytest.mark.parametrize(("items", "places"), [(1, 2), (2, 3), (3, 3), (4, 2), (1, 12)])
def test_it_has_the_states_of_a_model_without_tables(
    items: int, places: int, *, lossy: bool
) -> None:
    seen, new = {Run()}, {Run()}
    while new:
        new = {after for run in new for after in steps(run, items, places, lossy=lossy)} - seen
        seen |= new
    sizes = Configuration({Item: items, Place: places}, faults=("loss",) if lossy else ())
    settings = CheckSettings(properties=("items_arrive_in_order",))
    assert check(alternating_bit.SYSTEM, sizes, settings).states == len(seen)


def test_a_late_packet_is_taken_for_the_next_item() -> None:
    """Begin, an item and its acknowledgement, the next item: then the first packet comes again."""
    default = alternating_bit_broken.SYSTEM.configurations["default"]
    settings = CheckSettings(properties=("even_items_arrive_once",))
    finding = next(f for f in check(alternating_bit_broken.SYSTEM, default, settings).findings
                   if f.name == "even_items_arrive_once")
    assert finding.trace is not None
    assert [step.row for step in finding.trace.steps] == [
        "begin", "send", "take_even", "acknowledge", "advance", "send", "take_odd"]


def test_it_keeps_every_promise() -> None:
    default = alternating_bit.SYSTEM.configurations["default"]
    assert check(alternating_bit.SYSTEM, default, CheckSettings()).verdict is Verdict.HOLDS


@pytest.mark.parametrize("row", ["send", "acknowledge", "ignore_ack", "ignore_data_odd"])
def test_every_item_arrives_only_if_each_row_fires_again(row: str) -> None:
    """What is lost is sent again; what is ignored leaves its channel to those behind it."""
    system = edited(alternating_bit.SYSTEM, f"without-{row}", DropRow(row))
    promise = "every_item_arrives_in_the_end"
    found = {f.name: f.verdict for f in check(
        system, system.configurations["default"], CheckSettings(properties=(promise,))).findings}
    assert found[promise] is Verdict.VIOLATED
