"""The settings of a soak, and its state: a file from which a soak goes on that was cut off.

The file is written after each rest, when no process holds anything. So a soak that is killed loses
no more than the hand-overs since its last rest.
"""

import os
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from lab.files import naming
from lab.soak.books import Totals
from lab.soak.memory import Growth
from pdproto import __version__
from pdproto.drill.handoff.load import Load

FORMAT: Final = 1
LEG_S: Final = 1_800.0  # long enough for the memory of a process to be judged
LEG_HANDOFFS: Final = 250_000
PAGES_MAX: Final = 8  # of a request


class StateFileError(Exception):
    """A file from which this soak cannot go on; one line."""


class SoakSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a soak does. It ends after so many hand-overs, or seconds if `handoffs` is None.

    prefill, decode: the number of ranks. in_flight: hand-overs open at a decode rank at most.
    engines: by name; they take turns. bug: the historical defect of the tables of all ranks.
    """

    seed: int = 0
    prefill: int = 2
    decode: int = 2
    engines: tuple[str, ...] = ("tcp",)
    in_flight: int = 16
    handoffs: int | None = None
    seconds: float = 600.0
    abort_rate: float = 0.2
    bug: str | None = None

    @property
    def load(self) -> Load:
        """The load. Hand-overs are small, so that faults take most of the time."""
        return Load(
            seed=self.seed, requests=0, layers=2, page_bytes=4096, request_pages_max=PAGES_MAX,
            pool_pages=PAGES_MAX * self.in_flight * self.decode, abort_rate=self.abort_rate,
            abort_within_s=0.05, in_flight=self.in_flight)

    @property
    def total(self) -> float:
        """The end of the soak, in hand-overs or in seconds."""
        return self.seconds if self.handoffs is None else self.handoffs

    @property
    def leg(self) -> float:
        """The length of a leg, in hand-overs or in seconds. Each leg has a cluster of its own."""
        longest = LEG_S if self.handoffs is None else LEG_HANDOFFS
        return min(longest, self.total / len(self.engines))


class SoakState(Struct, forbid_unknown_fields=True, kw_only=True):
    """The result of a soak until its last rest.

    faults: counts by kind. messages: counts of the network. rests: how often everything had been
    given back. seconds: while clusters ran. parts: how many runs of the verb there were; cut_off:
    how many of them did not end at a rest. runs: whether a part runs now, or was cut off. known:
    how many complaints do not end the soak. engines: hand-overs by engine. growth: of memory, by
    kind of process.
    """

    format: int = FORMAT
    version: str = __version__
    settings: SoakSettings
    totals: Totals = msgspec.field(default_factory=Totals)
    faults: dict[str, int] = {}
    messages: dict[str, int] = {}
    rests: int = 0
    seconds: float = 0.0
    parts: int = 0
    cut_off: int = 0
    runs: bool = False
    known: int = 0
    commits: list[str] = []
    engines: dict[str, int] = {}
    growth: dict[str, Growth] = {}

    @property
    def done(self) -> float:
        """Hand-overs, or seconds, until the last rest."""
        return self.seconds if self.settings.handoffs is None else self.totals.routed

    @property
    def is_over(self) -> bool:
        """Whether the soak has come to its end, or has found a defect that is not known."""
        return self.done >= self.settings.total or len(self.totals.complaints) > self.known

    @property
    def leg(self) -> int:
        """The number of the present leg, from 0 on."""
        return int(self.done // self.settings.leg)

    @property
    def engine(self) -> str:
        """The engine of the present leg."""
        return self.settings.engines[self.leg % len(self.settings.engines)]

    def spared(self, names: tuple[str, ...]) -> str | None:
        """The rank among these that is not killed in this leg, so that its memory can be watched.

        Each rank is spared in turn, and then none is.
        """
        turn = self.leg // len(self.settings.engines) % (len(names) + 1)
        return names[turn] if turn < len(names) else None


class _Head(Struct):
    format: int


def load(path: Path, settings: SoakSettings) -> SoakState:
    """The state in this file; a new one if there is no such file.

    Raises StateFileError for another file, a state of another release, or of other settings.
    """
    try:
        data = path.read_bytes()
        head = msgspec.json.decode(data, type=_Head)
    except FileNotFoundError:
        return SoakState(settings=settings)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise StateFileError(f"{path} is no state of a soak: name another file ({error})") from None
    begin_anew = "name another file, or remove it to begin anew"
    if head.format != FORMAT:
        raise StateFileError(f"{path} has a state in format {head.format}, and this release reads "
                             f"format {FORMAT}: {begin_anew}")
    try:
        state = msgspec.json.decode(data, type=SoakState)
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise StateFileError(f"{path} is no state of a soak: {begin_anew} ({error})") from None
    if state.version != __version__:
        raise StateFileError(f"{path} has a state of pdproto {state.version}, and this is "
                             f"{__version__}: {begin_anew}")
    for name in SoakSettings.__struct_fields__:
        was, now = getattr(state.settings, name), getattr(settings, name)
        if was != now:
            raise StateFileError(f"{path} has a state of a soak with {name} {_told(was)}, and not "
                                 f"{_told(now)}: give the same options, or {begin_anew}")
    return state


def _told(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def save(path: Path, state: SoakState) -> None:
    """Write the state, never only in part, also when the machine stops. Raises OSError."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with naming(path), partial.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(state)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
