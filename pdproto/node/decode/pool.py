"""The owners of a decode rank's pages and metadata slots.

The table of the pool decides which life gets memory (spec/handoff/sink.py). It is run for one
request at a time. For that it needs only two lives: the life that asks, and one that stands for all
others.
"""

from collections.abc import Collection
from typing import Final

from pdproto.runtime import checked
from pdproto.runtime.automaton import Assignment, Automaton
from pdproto.runtime.role import SinkRole
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import ends, roles
from pdproto.spec.handoff.direct import IN_PLACE
from pdproto.spec.handoff.ends import Memory, pool, sink
from pdproto.spec.handoff.sink import POOL
from pdproto.spec.language.machine import Table

_ASKING, _OTHERS = 0, 1
_SIZES: Final = {roles.Sink: 1, roles.Life: 2, roles.Buffer: 1, roles.Page: 1, roles.Slot: 1}
_PACED: Final = "grant"
_AUTOMATON: Final = Automaton(POOL, _SIZES, paced=(_PACED,))


class Pool:
    """See above. table: of the pool, for another variant of the protocol. pages, slots: the life
    that owns each page and slot, by number.
    """

    def __init__(self, table: Table = POOL) -> None:
        self._automaton: Final = (
            _AUTOMATON if table is POOL else Automaton(table, _SIZES, paced=(_PACED,)))
        automaton = self._automaton
        self._asked: Final = automaton.bits(ends.memory, (0, _ASKING), Memory.ASKED)
        self._page_taken: Final = automaton.bits(ends.page, (0, _OTHERS, 0))
        self._slot_taken: Final = automaton.bits(ends.slot, (0, _OTHERS, 0))
        self._may_grant: Final = automaton.pace(_PACED)
        self.pages: Final[dict[int, Life]] = {}
        self.slots: Final[dict[int, Life]] = {}

    def grant(
        self, life: Life, pages: Collection[int], slot: int | None
    ) -> tuple[Assignment, ...]:
        """Give the life its pages and its slot; its staging memory has already been leased.

        slot: None if the application keeps no metadata rows. In the table the life then has a slot
        of its own, without a number.

        Returns the values that the table writes into the life's variables; empty if the table does
        not allow the grant.
        """
        granted = self._granted(pages, slot)
        if granted:
            self.pages.update(dict.fromkeys(pages, life))
            if slot is not None:
                self.slots[slot] = life
        return granted

    def allows(self, pages: Collection[int], slot: int | None) -> bool:
        """Whether the table allows the grant now."""
        return bool(self._granted(pages, slot))

    def _granted(self, pages: Collection[int], slot: int | None) -> tuple[Assignment, ...]:
        state = self._asked
        # Not `isdisjoint`: it may go through every place of a dict that was large once.
        if self.pages.keys() & pages:
            state |= self._page_taken
        if slot in self.slots:
            state |= self._slot_taken
        return self._automaton.take(self._may_grant, state).changed

    def owners(self, pages: Collection[int], slot: int | None) -> set[Life]:
        """The lives that own one of these pages, or the slot."""
        owners = {self.pages[page] for page in self.pages.keys() & pages}
        return owners if slot is None or slot not in self.slots else owners | {self.slots[slot]}

    def blame(
        self, pages: Collection[int], slot: int | None, owners: Collection[Life]
    ) -> str:
        """Why these cannot be granted: the page or slot that one of these owners keeps."""
        for page in pages:
            if self.pages.get(page) in owners:
                return f"page {checked.shown(page)} belongs to {self.pages[page]}"
        return f"metadata slot {slot} belongs to {self.slots.get(slot or 0)}"

    def free_slot(self, slot: int | None) -> None:
        """Make the slot free. None: the life had no numbered slot."""
        if slot is not None:
            del self.slots[slot]

    def free_pages(self, pages: Collection[int]) -> None:
        """Make the pages free. No copy into them may be under way."""
        for page in pages:
            del self.pages[page]


_TABLES: Final = {table.machine: table for table in IN_PLACE.tables}
DIRECT_ROLE: Final = SinkRole(_TABLES[sink])


def direct_pool() -> Pool:
    """A new pool for a decode node whose sources write straight into its pages."""
    return Pool(_TABLES[pool])
