"""Channels: the first message alone arrives, a full channel blocks, and every reader agrees."""

from collections.abc import Iterator
from dataclasses import replace
from math import comb, perm
from pathlib import Path
from typing import NamedTuple

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import NATIVE, PORTABLE, EngineChoice
from pdproto.check.interpret import Interpreter
from pdproto.check.result import Verdict
from pdproto.check.trace.verify import verify
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.language import (
    TRUE,
    Always,
    Call,
    Configuration,
    Machine,
    Message,
    Row,
    Sometimes,
    Sort,
    System,
    Table,
    all_of,
    each,
    exists,
    implies,
    lose,
)


class Node(Sort, ordered=True):
    """A process."""


class Item(Sort):
    """Content of a message."""


class Place(Sort, ordered=True):
    """A place in a channel."""


p, q, i, s, t = Node("p"), Node("q"), Item("i"), Place("s"), Place("t")
node = Machine("node", p)
world = Machine("world", world=True)
got = node.relation("got", Item)
data = Message("data", p, q, i, sender=node, receiver=node.at(q), fifo=Place)
end = Message("end", p, q, sender=node, receiver=node.at(q), fifo=Place)

SYSTEM = System(
    "channels", "Nodes send to each other, and to themselves.",
    tables=(Table(node, rows=(
        Row("send", on=Call("send", i), choose=(q,), when=p.differs(q), send=[data(p, q, i)]),
        Row("close", on=Call("close"), send=[each(q, end(p, q), where=p.differs(q))]),
        Row("take", on=data(q, p, i), do=[got(p, i).to(True)]),
        Row("echo", on=end(q, p), send=[data(p, q, i), end(p, q)], choose=(i,), when=got(p, i)),
    )),),
    properties=(
        Sometimes("both_wait", exists((s, t), all_of(
            data(p, q, i).at(s), end(p, q).at(t), s.before(t)))),
        Sometimes("the_first", end(p, q).arrived),
    ),
    faults={"loss": (Table(world, rows=(lose(data),)),)},
    configurations={"default": Configuration({Node: 2, Item: 1, Place: 2}, faults=("loss",))},
)
sent = node.relation("sent", Item)
LONG = System(
    "long-channel", "One node sends each item once to another.",
    tables=(Table(node, rows=(
        Row("send", on=Call("send", i), choose=q, when=p.before(q) & ~sent(p, i),
            send=data(p, q, i), do=sent(p, i).to(True)),
        Row("take", on=data(q, p, i), do=got(p, i).to(True)),
    )),), final=TRUE,
    properties=(Always("none_is_lost", implies(
        sent(p, i) & p.before(q), got(q, i) | data(p, q, i).queued)),),
    configurations={"default": Configuration(
        {Node: 2, Item: 6, Place: 6}, symmetry=False, dead_bits=False)},
)
SIZES = SYSTEM.configurations["default"].sizes


class Run(NamedTuple):
    """A state: the nodes that got the item, and the queue of each pair of nodes."""

    got: frozenset[int] = frozenset()
    queues: tuple[tuple[str, ...], ...] = ((), ())  # from node 0, from node 1


def steps(state: Run, places: int, *, lossy: bool) -> Iterator[Run]:
    """The states after one step of a model without tables, of two nodes and one item."""
    for node_ in (0, 1):
        own, other = state.queues[node_], state.queues[1 - node_]
        moves = [((*own, "data"), other, False), ((*own, "end"), other, False)]
        if other[:1] == ("data",):
            moves.append((own, other[1:], True))
            moves += [(own, other[1:], False)] if lossy else []
        if other[:1] == ("end",) and node_ in state.got:
            moves.append(((*own, "data", "end"), other[1:], False))
        for mine, others, gets in moves:
            if len(mine) <= places:
                queues = (mine, others) if node_ == 0 else (others, mine)
                yield Run(state.got | {node_} if gets else state.got, queues)


@pytest.mark.parametrize(("places", "lossy"), [(1, True), (2, False), (2, True), (3, True)])
def test_it_has_the_states_of_a_model_without_tables(places: int, lossy: bool) -> None:
    seen, new = {Run()}, {Run()}
    while new:
        new = {after for run in new for after in steps(run, places, lossy=lossy)} - seen
        seen |= new
    sizes = {Node: 2, Item: 1, Place: places}
    faults = ("loss",) if lossy else ()
    settings = CheckSettings(keep_going=True)
    plain = Configuration(sizes, faults, symmetry=False, dead_bits=False)
    assert check(SYSTEM, plain, settings).states == len(seen)
    assert len(Interpreter(SYSTEM, sizes, faults).explore().depth) == len(seen)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_trace_keeps_the_order_of_a_channel(tmp_path: Path, *, in_order: bool) -> None:
    """A sends an item, another one, and the end; B takes the last two in one order or the other."""
    path = tmp_path / "both.jsonl"
    with path.open("wb") as file:
        trace = SharedTrace("both", file)
        one, two = (shared(SYSTEM.tables[0], (name,), {Node: ("a", "b")}, trace=trace)
                    for name in "ab")
        one.call("send", "x", choose={"q": "b"})
        two.receive(data, "a", "b", "x")
        one.call("send", "y", choose={"q": "b"})
        one.call("close")
        if in_order:
            two.receive(data, "a", "b", "y")
        two.receive(end, "a", "b", choose={"i": "x"})
        if not in_order:
            two.receive(data, "a", "b", "y")
    lossless = replace(SYSTEM, faults={}, configurations={}, like=SYSTEM)
    result = verify(lossless, [path])
    assert (result.verdict is Verdict.HOLDS) == in_order
    if result.rejection is not None:
        assert "end(a, b) overtakes data(a, b, y) in their channel" in str(result.rejection)
    assert verify(SYSTEM, [path]).verdict == (Verdict.HOLDS if in_order else Verdict.VIOLATED)


@pytest.mark.parametrize("engine", [NATIVE, PORTABLE])
def test_a_row_that_takes_has_no_case_for_each_content(engine: EngineChoice) -> None:
    """Six places of six items: the items that were taken, and a sequence of some others."""
    items = 6 if engine == NATIVE else 3
    result = check(LONG, Configuration(
        {Node: 2, Item: items, Place: items}, symmetry=False, dead_bits=False),
        CheckSettings(keep_going=True, engine=engine))
    assert result.verdict is Verdict.HOLDS
    assert result.states == sum(comb(items, taken) * perm(items - taken, waiting)
                                for taken in range(items + 1)
                                for waiting in range(items - taken + 1))
