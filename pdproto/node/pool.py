"""A decode rank's pages and metadata slots: who has which.

The table of the pool decides who is given memory (spec/handoff/sink.py). It is asked about one
request at a time: there are two lives then, the one that asks and all others together.
"""

from collections.abc import Collection
from typing import Final

from pdproto.runtime.automaton import Assignment, Automaton
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import ends, roles
from pdproto.spec.handoff.ends import Memory
from pdproto.spec.handoff.sink import POOL
from pdproto.spec.language.machine import Table

_ASKING, _OTHERS = 0, 1
_SIZES: Final = {roles.Sink: 1, roles.Life: 2, roles.Landing: 1, roles.Page: 1, roles.Slot: 1}
_PACED: Final = "grant"
_AUTOMATON: Final = Automaton(POOL, _SIZES, paced=(_PACED,))


class Pool:
    """See above. table: the pool's, where another variant is run. pages, slots: by number, the life
    that has it.
    """

    def __init__(self, table: Table = POOL) -> None:
        self._automaton: Final = (
            _AUTOMATON if table is POOL else Automaton(table, _SIZES, paced=(_PACED,)))
        automaton = self._automaton
        self._asked: Final = automaton.bits(ends.memory, (0, _ASKING), Memory.ASKED)
        self._page_taken: Final = automaton.bits(ends.page, (0, _OTHERS, 0))
        self._slot_taken: Final = automaton.bits(ends.slot, (0, _OTHERS, 0))
        self.pages: Final[dict[int, Life]] = {}
        self.slots: Final[dict[int, Life]] = {}

    def grant(
        self, life: Life, pages: Collection[int], slot: int | None
    ) -> tuple[Assignment, ...]:
        """Give the life its pages and its slot, beside staging memory that has been found for it.
        slot: None where the application keeps no metadata rows: then the life has one of its own,
        as in the table, and it has no number.

        Returns what the table writes into the life's variables; nothing if it does not allow it.
        """
        state = self._asked
        if not self.pages.keys().isdisjoint(pages):
            state |= self._page_taken
        if slot in self.slots:
            state |= self._slot_taken
        granted = self._automaton.take(self._automaton.pace(_PACED), state).changed
        if granted:
            self.pages.update(dict.fromkeys(pages, life))
            if slot is not None:
                self.slots[slot] = life
        return granted

    def blame(self, pages: Collection[int], slot: int | None) -> str:
        """Why these cannot be granted: what somebody else has."""
        for page in pages:
            if page in self.pages:
                return f"page {page} belongs to {self.pages[page]}"
        return f"metadata slot {slot} belongs to {self.slots.get(slot or 0)}"

    def free_slot(self, slot: int | None) -> None:
        """Nobody has this slot any more, if it was one."""
        if slot is not None:
            del self.slots[slot]

    def free_pages(self, pages: Collection[int]) -> None:
        """Nobody has these pages any more, and nothing is copied into them."""
        for page in pages:
            del self.pages[page]
