"""Which requests for memory are refused, and which wait: the table decides (QUEUE in
spec/handoff/decode_memory.py).

It is run for one request at a time. For that it needs only two lives: the life that asks, and one
that stands for all others; and one page, which stands for the pages and the slot that both name.
"""

from typing import Final

from pdproto.ground.layout import Indices
from pdproto.node.part import Part
from pdproto.runtime.automaton import Automaton
from pdproto.spec.handoff import decode_memory as tables
from pdproto.spec.handoff.decode_memory import QUEUE, Staging
from pdproto.spec.handoff.roles import Life, Page
from pdproto.spec.language.machine import Table

_ASKING, _OTHERS, _WANTED = 0, 1, 0
_SIZES: Final = {Life: 2, Page: 1}
_AUTOMATON: Final = Automaton(QUEUE, _SIZES)


class Refusals:
    """See above. table: for another variant of it."""

    def __init__(self, table: Table = QUEUE) -> None:
        automaton = _AUTOMATON if table is QUEUE else Automaton(table, _SIZES)
        self._automaton: Final = automaton
        self.part: Final = Part("refusals", runs=table, calls={
            "system_refuses": self.by_system, "find_owned": self.of_owned})
        self._waiting: Final = automaton.bits(tables.staging, (_ASKING,), Staging.WAITING)
        self._wants: Final = automaton.bits(tables.wants, (_ASKING, _WANTED))
        self._short: Final = automaton.bits(tables.short, ())
        self._held: Final = automaton.bits(tables.staging, (_OTHERS,), Staging.HELD)
        self._owned: Final = automaton.bits(tables.owns, (_OTHERS, _WANTED))
        self._closed: Final = automaton.bits(tables.closed, (_OTHERS,))

    def by_system(self, *, held: bool) -> bool:
        """Whether a request is refused for which the system refuses staging memory. held: another
        one holds some.
        """
        return self._is_refused("system_refuses", (_ASKING,),
                                self._short | (self._held if held else 0))

    def of_owned(self, *, closed: bool) -> bool:
        """Whether a request is refused that names a page or slot of another one. closed: each
        owner has given its own back.
        """
        return self._is_refused("find_owned", (_ASKING, _WANTED),
                                self._wants | self._owned | (self._closed if closed else 0))

    def _is_refused(self, call: str, about: Indices, of_others: int) -> bool:
        step = self._automaton.take(self._automaton.call(call, about), self._waiting | of_others)
        return bool(step.changed)
