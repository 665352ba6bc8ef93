"""Words of memory that both ends of a connection share, in the place of messages about each write.

A *spot* is two words about one piece of the sink's memory that this source has mapped: the *grant*,
which the sink writes, and the *writer*, which the source writes. A word is 8 bytes of the token of
a lease (`word_of`), or 0. They are hazard pointers (Michael, 2004):

    source: writer = its word; barrier; refused unless grant == its word; copy; it has landed if
            grant == its word still; writer = 0
    sink, at a fence or release: grant = 0; barrier; if writer != 0, a source may go on writing

Rule 1: each end writes its word before it reads that of the other. So either the source sees that
        the grant is withdrawn, or the sink sees the writer, and gives the memory up.
Rule 2: a source that reads its grant after its copy has written every byte before the fence began.
Rule 3: a source never writes a writer for a grant that it does not see. So an address of a lease
        that is over disturbs no writer.
Rule 4: each connection has a board of its own, so no process clears the writer of another.
"""

import ctypes
import fcntl
import mmap
import os
from collections.abc import Callable
from platform import machine
from threading import Lock
from typing import Final

from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import REGIONS_MAX

SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
COUNTS: Final = 4  # words at the start: writes and bytes that have landed, refused writes, unused
LANDED_WRITES, LANDED_BYTES, REFUSED_WRITES = range(3)
BOARD_BYTES: Final = 8 * (COUNTS + 2 * REGIONS_MAX)
NOTHING: Final = 0

# The words of a board do not say which it is.
CLOSED: Final = ("the sink lets no write to this address in: it has fenced or ended the hand-over, "
                 "or the address is made up")
WITHDRAWN: Final = ("the sink has withdrawn the address during the write: it has fenced or ended "
                    "the hand-over")

X86: Final = ("x86_64", "i686")
# membarrier(2) by processor; elsewhere the number of linux/include/uapi/asm-generic/unistd.h.
MEMBARRIER: Final = {"x86_64": 324, "ppc64le": 365, "s390x": 356}
MEMBARRIER_ELSEWHERE: Final = 283
GLOBAL_EXPEDITED: Final = 1 << 1  # of the caller alone: no process has asked for it

_lock: Final = Lock()


def barrier_for(processor: str) -> Callable[[], None]:
    """The barrier of this processor: no read behind it happens before a write in front of it.

    To take a lock is an atomic exchange, which on x86 orders everything. Others (Arm) order only
    what follows, so a write in front may be seen late: there the kernel makes the barrier.
    """
    return _by_lock if processor in X86 else _by_kernel(processor)


def _by_lock() -> None:
    with _lock:
        pass


def _by_kernel(processor: str) -> Callable[[], None]:
    call = ctypes.CDLL(None, use_errno=True).syscall
    number = MEMBARRIER.get(processor, MEMBARRIER_ELSEWHERE)

    def by_kernel() -> None:
        if call(number, GLOBAL_EXPEDITED, 0, 0):
            why = os.strerror(ctypes.get_errno())
            raise OSError(f"shared memory needs the system call membarrier, and this host refuses "
                          f"it: {why}; open both sides with another engine (tcp, mooncake, nixl)")

    return by_kernel


barrier: Final = barrier_for(machine())


def word_of(token: bytes) -> int:
    """The word of the lease with this token, which only its source can know; 0 for no token."""
    return int.from_bytes(token[8:16], "little")


class Board:
    """The words of one connection. file: of the sink; it is not closed. Raises RemoteProtocolError
    if it is none.
    """

    def __init__(self, file: int) -> None:
        try:
            sealed = fcntl.fcntl(file, fcntl.F_GET_SEALS) & SEALS == SEALS
        except OSError:
            sealed = False
        if not sealed or os.fstat(file).st_size != BOARD_BYTES:
            raise RemoteProtocolError(f"the sink's board is no sealed file of {BOARD_BYTES} bytes")
        self._memory: Final = mmap.mmap(file, BOARD_BYTES)
        self.words: Final = memoryview(self._memory).cast("Q")

    def close(self) -> None:
        """Unmap it. Nobody reads or writes a word of it any more."""
        self.words.release()
        self._memory.close()

    def count(self, what: int, more: int) -> None:
        """Add to one of the counts, which the source writes."""
        self.words[what] += more


def new_board() -> tuple[Board, int]:
    """A board for a new connection, and its file. Raises OSError if the system refuses."""
    file = os.memfd_create("pdproto-board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, BOARD_BYTES)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, SEALS)
        return Board(file), file
    except OSError:
        os.close(file)
        raise


class Spot:
    """The words of one piece of memory. number: of the spot, less than REGIONS_MAX."""

    __slots__ = ("_grant", "_words", "_writer", "number")

    def __init__(self, board: Board, number: int) -> None:
        self.number: Final = number
        self._words: Final = board.words
        self._grant: Final = COUNTS + 2 * number
        self._writer: Final = self._grant + 1

    # For the sink.

    def grant(self, word: int) -> None:
        """Let the source of this lease write, and no other; 0: let nobody write."""
        self._words[self._grant] = word

    @property
    def has_writer(self) -> bool:
        """Whether the source may be writing; to be asked behind a barrier."""
        return self._words[self._writer] != NOTHING

    # For the source.

    def allows(self, word: int) -> bool:
        """Whether the sink lets this lease be written to."""
        return word != NOTHING and self._words[self._grant] == word

    def enter(self, word: int) -> bool:
        """Begin to write. Returns False if the sink does not allow it any more."""
        if not self.allows(word):
            return False  # rule 3
        self._words[self._writer] = word
        barrier()
        if self.allows(word):
            return True
        self.leave()
        return False

    def leave(self) -> None:
        """Nothing is written any more."""
        barrier()
        self._words[self._writer] = NOTHING
