"""The native search engine: search.c behind the interface of engine.py.

setup.py compiles it if there is a C compiler; `available` tells whether it did. search.c trusts its
caller, so this module checks all arguments that could corrupt memory.
"""

import ctypes
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdproto.check.engine import Assumptions, Edges, Flags, Positions, Traps
from pdproto.check.native.blocks import PADDING, by_word
from pdproto.check.native.pack import Arena, FairRows, Guards, Image, PackedProgram
from pdproto.ground.program import WORD_BITS, Guard, Program

SHARDS: Final = 16
INDEX_BITS: Final = 28
ID_BITS: Final = 32
NONE: Final = (1 << 32) - 1
UNLIMITED: Final = (1 << 64) - 1
STALE: Final = "{} was compiled from other sources: reinstall the package"
STEPS_WORDS: Final = 1 << 20  # of steps that an Expander finds at a time: 8 MiB

Signatures: TypeAlias = Mapping[str, tuple[type | None, tuple[type, ...]]]
LISTS: Final[Signatures] = {
    "search_expand": (ctypes.c_uint64, (
        *[ctypes.c_void_p] * 2, ctypes.c_uint64, ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint64,
        ctypes.c_void_p)),
    "search_holds": (None, (*[ctypes.c_void_p] * 3, ctypes.c_uint64, ctypes.c_void_p)),
}


@cache
def available() -> bool:
    """Whether the engine was compiled when the package was installed."""
    spec = find_spec("pdproto.check.native._search")
    return spec is not None and spec.origin is not None


class _Search:
    """A search of search.c, with what it counts."""

    def __init__(
        self, program: Program, workers: int, bytes_max: int, shard_max: int, plain: bool
    ) -> None:
        self._program = program
        self._packed = PackedProgram(program)
        self._library = _library()
        handle = self._library.search_open(
            ctypes.byref(self._packed.image), workers, bytes_max, shard_max, plain
        )
        if not handle:
            raise MemoryError("no memory for the search engine")
        self._close = weakref.finalize(self, self._library.search_close, handle)
        self._pointer = ctypes.c_void_p(handle)

    @property
    def fired(self) -> NDArray[np.int64]:
        """See Engine."""
        by_place = np.zeros(len(self._packed.rows), dtype=np.int64)
        self._library.search_fired(self._handle, _address(by_place))
        fired = np.zeros(len(self._program.rows), dtype=np.int64)
        for place, row in enumerate(self._packed.rows):
            if row != PADDING:
                fired[row] = by_place[place]
        return fired

    @property
    def hits(self) -> dict[int, int]:
        """See Engine."""
        by_place = np.empty(len(self._packed.patterns), dtype=np.uint32)
        self._library.search_hits(self._handle, _address(by_place))
        found = zip(self._packed.patterns, by_place.tolist(), strict=True)
        return dict(sorted((p, i) for p, i in found if p != PADDING and i != NONE))

    @property
    def stuck(self) -> tuple[int, int | None]:
        """See Engine."""
        count, first = (int(number) for number in self._counts()[2 * SHARDS + 2 :])
        return count, None if first == NONE else first

    def close(self) -> None:
        """Release the memory."""
        self._close()

    @property
    def _handle(self) -> ctypes.c_void_p:
        if not self._close.alive:
            raise ValueError("the search engine has been closed")
        return self._pointer

    def _counts(self) -> NDArray[np.uint64]:
        """Stored and expanded by shard; then left in the level, bytes, stuck, the first stuck."""
        counts = np.zeros(2 * SHARDS + 4, dtype=np.uint64)
        self._library.search_counts(self._handle, _address(counts))
        return counts

    def _packed_guard(self, guard: Guard) -> tuple[Arena, Guards]:
        """The guard for search.c, and the owner of its arrays."""
        arena = Arena(self._program.words)
        possible = arena.possible([guard])
        return arena, arena.guards(possible, by_word(possible))


class NativeEngine(_Search):
    """See engine.Engine, which this class implements.

    The results are the same for any number of workers. An id consists of a shard's number and an
    index in it. Positions number the states of one shard after the other.
    """

    def __init__(
        self,
        program: Program,
        *,
        workers: int,
        bytes_max: int = UNLIMITED,
        shard_max: int = 1 << INDEX_BITS,
        plain: bool = False,
    ) -> None:
        """Store the initial states.

        workers: threads; at most SHARDS of them are used. bytes_max: the limit of `bytes`.
        shard_max: the limit of states in one of SHARDS shards. Beyond a limit `step` raises
        MemoryError. plain: use no instructions that only some processors have. Raises MemoryError
        if the initial states do not fit, and ValueError without a worker or for too wide states.
        """
        if workers < 1:
            raise ValueError(f"workers: want 1 or more, got {workers}")
        self._workers = min(workers, SHARDS)
        super().__init__(program, self._workers, bytes_max, shard_max, plain)
        self._levels: list[int] = []
        initial = np.array([self._packed.split(state) for state in program.initial], np.uint64)
        if not self._library.search_seed(self._handle, _address(initial), len(program.initial)):
            self.close()
            raise MemoryError(f"no memory for {len(program.initial)} initial states")

    @property
    def states(self) -> int:
        return int(self._counts()[:SHARDS].sum())

    @property
    def levels(self) -> tuple[int, ...]:
        return tuple(self._levels)

    @property
    def frontier(self) -> int:
        counts = self._counts()
        return int(counts[:SHARDS].sum() - counts[SHARDS : 2 * SHARDS].sum())

    @property
    def bytes(self) -> int:
        return int(self._counts()[2 * SHARDS + 1])

    def step(self, states_max: int, *, strictly: bool = False) -> bool:
        if self.at_level_end and self.frontier:
            self._levels.append(self.frontier)
        most = max(states_max, 1)
        if not self._library.search_step(self._handle, most, strictly, self._workers):
            raise MemoryError(f"no memory for more than {self.states:,} states")
        return self.frontier > 0

    @property
    def at_level_end(self) -> bool:
        return not self._counts()[2 * SHARDS]

    def state(self, identity: int) -> int:
        words = np.empty(self._program.words, dtype=np.uint64)
        self._library.search_state(self._handle, self._checked(identity), _address(words))
        return int.from_bytes(words.astype("<u8").tobytes(), "little")

    def parent(self, identity: int) -> int | None:
        parent = self._library.search_parent(self._handle, self._checked(identity))
        return None if parent == NONE else parent

    def find(self, state: int) -> int | None:
        if not 0 <= state < 1 << self._program.words * WORD_BITS:
            return None
        found = self._library.search_find(self._handle, _address(self._packed.split(state)))
        return None if found == NONE else found

    def edges(self, positions: Positions | None = None) -> Edges:
        if positions is None:
            positions = np.arange(self.states)
        identities = self._identities(positions)
        rows = len(self._packed.rows)
        room = min(int(self.fired.sum()), len(positions) * rows) + rows
        counts = np.zeros(len(positions), dtype=np.int64)
        found = np.empty(room, dtype=np.uint64)
        self._library.search_edges(
            self._handle, _address(identities), len(positions), _address(counts), _address(found)
        )
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        found = found[: starts[-1]]
        targets = self._positions(found.astype(np.uint32))
        return Edges(starts, targets, (found >> ID_BITS).astype(np.uint32))

    def traps(self, pending: Flags, allowed: Flags, assumed: Assumptions) -> Traps:
        states, rows = self.states, len(self._program.rows)
        for flags in (pending, allowed):
            _check_array(flags, np.bool_, states)
        _check_array(assumed.fair, np.uint8, rows)
        _check_array(assumed.faults, np.bool_, rows)
        _check_array(assumed.units, np.uint32, rows)
        if rows and assumed.units.max() >= rows:
            raise ValueError(f"units: want numbers of rows below {rows}")
        image = FairRows(*map(_address, (assumed.fair, assumed.faults, assumed.units)), rows)
        where, components = np.zeros(states, np.uint8), np.empty(states, np.uint32)
        found = self._library.search_traps(
            self._handle, ctypes.byref(image), assumed.every, _address(pending), _address(allowed),
            _address(where), _address(components),
        )
        if found < 0:
            raise MemoryError(f"no memory to look for fair runs among {states:,} states")
        return Traps(found, where, components)

    def identity(self, position: int) -> int:
        return int(self._identities(np.array([position]))[0])

    def position(self, identity: int) -> int:
        return int(self._positions(np.array([self._checked(identity)], np.uint32))[0])

    def _bases(self) -> NDArray[np.int64]:
        """[SHARDS + 1]: the position of each shard's first state, and the number of all."""
        return np.concatenate([[0], np.cumsum(self._counts()[:SHARDS])]).astype(np.int64)

    def _positions(self, identities: NDArray[np.uint32]) -> NDArray[np.uint32]:
        shift = self._bases()[:SHARDS] - (np.arange(SHARDS) << INDEX_BITS)
        positions: Positions = identities + shift[identities >> INDEX_BITS]
        return positions.astype(np.uint32)

    def _identities(self, positions: Positions) -> NDArray[np.uint32]:
        bases = self._bases()
        strange = positions[(positions < 0) | (positions >= bases[-1])]
        if strange.size:
            raise IndexError(f"no state at {strange[0]}: {bases[-1]} are stored")
        shards = np.searchsorted(bases[1:], positions, side="right")
        return ((shards << INDEX_BITS) + positions - bases[shards]).astype(np.uint32)

    def where(self, guard: Guard) -> Flags:
        _arena, packed = self._packed_guard(guard)
        where = np.zeros(self.states, dtype=np.bool_)
        self._library.search_where(
            self._handle, self._workers, ctypes.byref(packed), _address(where)
        )
        return where

    def _checked(self, identity: int) -> int:
        shard, index = divmod(identity, 1 << INDEX_BITS)
        if not (0 <= shard < SHARDS and index < self._counts()[shard]):
            raise IndexError(f"no state has the id {identity}")
        return identity


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps out of a list of states. targets: uint64 [steps, words], in stored form. origins:
    uint32 [steps], places in the list, ascending. rows: uint32 [steps], numbers of rows.
    """

    targets: NDArray[np.uint64]
    origins: NDArray[np.uint32]
    rows: NDArray[np.uint32]


class Expander(_Search):
    """The inner loops of the engine for states that the caller keeps (out_of_core.py).

    `fired` and `stuck` sum up all lists. `hits` and the first stuck state are places in the list
    in which they were found first.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program, 1, UNLIMITED, 1 << INDEX_BITS, plain=False)
        if not _declared(self._library, LISTS):
            raise ImportError(STALE.format(self._library._name))
        width = program.words + 1
        rows = len(self._packed.rows)
        self._steps: Final = np.empty(max(STEPS_WORDS, rows * width), dtype=np.uint64)

    def expand(self, states: NDArray[np.uint64], *, counts: bool) -> tuple[int, Steps]:
        """The steps of the first states, [states, words], and how many states that are: at least
        one. counts: also count them, and look for patterns.
        """
        self._check(states)
        posted = ctypes.c_uint64()
        expanded = int(self._library.search_expand(
            self._handle, _address(states), len(states), counts, _address(self._steps),
            len(self._steps), ctypes.byref(posted)))
        steps = self._steps[: posted.value].reshape(-1, self._program.words + 1)
        origins = steps[:, -1]
        return expanded, Steps(steps[:, :-1], origins.astype(np.uint32),
                               (origins >> ID_BITS).astype(np.uint32))

    def where(self, guard: Guard, states: NDArray[np.uint64]) -> Flags:
        """[states]: whether the guard holds in each."""
        self._check(states)
        _arena, packed = self._packed_guard(guard)
        where = np.zeros(len(states), dtype=np.bool_)
        self._library.search_holds(
            self._handle, ctypes.byref(packed), _address(states), len(states), _address(where))
        return where

    def _check(self, states: NDArray[np.uint64]) -> None:
        if (states.dtype != np.uint64 or states.ndim != 2 or not states.flags.c_contiguous
                or states.shape[1] != self._program.words):
            raise ValueError(f"want states of {self._program.words} words, got {states.dtype} "
                             f"{states.shape}")


def _check_array(array: NDArray[np.generic], kind: type[np.generic], size: int) -> None:
    """Raises ValueError unless the engine can read the array as one of so many of that kind."""
    if array.dtype != kind or array.shape != (size,) or not array.flags.c_contiguous:
        raise ValueError(f"want {size} times {kind.__name__}, got {array.dtype} {array.shape}")


def _address(array: NDArray[np.generic]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@cache
def _library() -> ctypes.CDLL:
    spec = find_spec("pdproto.check.native._search")
    if spec is None or spec.origin is None:
        raise ImportError("the native engine was not compiled: install a C compiler and reinstall")
    library = ctypes.CDLL(spec.origin)
    pointer, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    signatures: Signatures = {
        "search_image_bytes": (u64, ()),
        "search_open": (pointer, (pointer, u32, u64, u64, ctypes.c_bool)),
        "search_seed": (ctypes.c_bool, (pointer, pointer, u64)),
        "search_step": (ctypes.c_bool, (pointer, u64, ctypes.c_bool, u32)),
        "search_counts": (None, (pointer, pointer)),
        "search_fired": (None, (pointer, pointer)),
        "search_hits": (None, (pointer, pointer)),
        "search_state": (None, (pointer, u32, pointer)),
        "search_parent": (u32, (pointer, u32)),
        "search_find": (u32, (pointer, pointer)),
        "search_where": (None, (pointer, u32, pointer, pointer)),
        "search_edges": (None, (pointer, pointer, u64, pointer, pointer)),
        "search_traps": (ctypes.c_int, (pointer, pointer, ctypes.c_uint8, *[pointer] * 4)),
        "search_close": (None, (pointer,)),
    }
    declared = _declared(library, signatures)
    if not declared or library.search_image_bytes() != ctypes.sizeof(Image):
        raise ImportError(STALE.format(spec.origin))
    return library


def _declared(library: ctypes.CDLL, signatures: Signatures) -> bool:
    """Declare the functions; returns whether the library has them all."""
    if not all(hasattr(library, name) for name in signatures):
        return False
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return True
