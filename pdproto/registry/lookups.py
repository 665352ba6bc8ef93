"""Look-ups of prefill servers for a thread that must not wait: each runs in a thread of its own.

The registry of a server may run in the process that hangs, and then a look-up ends by its time-out.
SGLang has the same defect in its own backend (its pull request #34865).
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Final

from pdproto.net import threads
from pdproto.registry.client import RegistryClient
from pdproto.registry.desks import PROBLEMS
from pdproto.registry.wire import Directory
from pdproto.runtime import checked
from pdproto.runtime.limits import NAME_MAX
from pdproto.transport.keys import Keys

log = logging.getLogger("pdproto.registry")

AGAIN_S: Final = 1.0  # for so long an answer and a failure are kept, without another look-up
UNDER_WAY_MAX: Final = 32  # servers that are looked up at a time; others wait
SERVERS_MAX: Final = 4_096  # whose answers are known; a client may name any address


def named(address: str) -> str:
    """A prefill server in a reason. A client may have written any text."""
    return f"prefill server {checked.one_line(address, NAME_MAX)}"


@dataclass(frozen=True, slots=True)
class Found:
    """An answer: the ranks of a server, or why there is none. at: when it came."""

    directory: Directory | None
    problem: str
    at: float


class Lookups:
    """The last answer of each server's registry. keys: see RegistryClient. told: set it to hear, in
    the thread of a look-up, of which server an answer has come.
    """

    def __init__(self, keys: Keys | None = None) -> None:
        self.told: Callable[[str], None] = lambda _: None
        self._keys: Final = keys
        self._found: Final[OrderedDict[str, Found]] = OrderedDict()  # the latest is the last
        self._lock: Final = Lock()
        self._under_way: Final[set[str]] = set()

    def of(self, address: str, *, fresh: bool = False) -> Directory | None:
        """The ranks of the server at this address; None while it is looked up. For any thread.
        fresh: an answer does not count that is older than AGAIN_S, as none does that lacks a
        rank. Raises LookupError with the reason if the last look-up has failed, for AGAIN_S.
        """
        found = self._found.get(address)
        if found is not None:
            directory = found.directory
            if directory is not None and directory.is_whole and not fresh:
                return directory
            if monotonic() - found.at < AGAIN_S:
                if directory is None:
                    raise LookupError(found.problem)
                return directory
        if address not in self._under_way and len(self._under_way) < UNDER_WAY_MAX:
            self._under_way.add(address)
            threads.ServiceThread(lambda: self._look(address), "pdproto-lookup").start()
        return None

    def _look(self, address: str) -> None:
        directory, problem = None, ""
        try:
            client = RegistryClient(address, keys=self._keys)
            try:
                directory = client.look_up_all()
            finally:
                client.close()
        except (*PROBLEMS, ValueError) as error:
            problem = str(error)
            log.warning("%s: %s", named(address), problem)
        except Exception as error:  # or it would count as under way for ever
            problem = f"{type(error).__name__}: {error}"
            log.exception("%s", named(address))
        with self._lock:
            self._found[address] = Found(directory, problem, monotonic())
            self._found.move_to_end(address)
            if len(self._found) > SERVERS_MAX:
                self._found.popitem(last=False)
        self._under_way.discard(address)
        threads.call_each(lambda: self.told(address))
