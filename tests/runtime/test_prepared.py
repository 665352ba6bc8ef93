"""A node makes the tables of common hand-overs before the first one, and not in its loop."""

import pytest

from pdproto.runtime.role import RankRole, SinkRole, SourceRole
from pdproto.runtime.sending import SendingEndpoint
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Write

CHUNKS = 9  # more than an automaton counts at once


def made(role: SourceRole | SinkRole | RankRole) -> set[tuple[int, ...]]:
    """The sizes for which the role has automata."""
    return set(role._automata)


@pytest.mark.parametrize("sinks", [1, 2])
def test_a_hand_over_of_many_chunks_makes_no_automaton(sinks: int) -> None:
    role = SourceRole()
    role.prepare()
    before = made(role)
    endpoint = SendingEndpoint(role, None)
    endpoint.take(endpoint.automaton.call("open_sender"))
    endpoint.meet([f"d{sink}" for sink in range(sinks)])
    for sink in range(sinks):
        at = sink, 0, 0
        carried = endpoint.automaton.bits(ends.address, at)
        endpoint.take(endpoint.automaton.message(ends.publish, at, carried))
    for chunk in range(CHUNKS):
        endpoint.take(endpoint.hand_over(last=chunk == CHUNKS - 1))
        endpoint.handed_over()
        for sink in range(sinks):
            while (step := endpoint.take(endpoint.post_to(sink))).rows:
                place = next(at for symbol, at, _ in step.changed if symbol is ends.write)
                endpoint.take(endpoint.automaton.device((ends.write, place, Write.LANDED)))
        endpoint.landed()
    assert endpoint.handed == CHUNKS
    assert made(role) == before


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_sink_and_a_rank_of_prefill_have_their_automata(ranks: int) -> None:
    sink, rank = SinkRole(), RankRole()
    for role in (sink, rank):
        role.prepare()
    before = made(sink), made(rank)
    sink.automaton_for(sources=ranks)
    rank.automaton_for(sinks=ranks)
    assert (made(sink), made(rank)) == before
