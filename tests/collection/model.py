"""A published model, written in the language of the tables from its description."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from pdproto.spec.language import Configuration, System


@dataclass(frozen=True)
class Model:
    """states: at the default configuration. source: of this number. violated: the claims that do
    not hold, "deadlock" among them. larger: other configurations, each with its states. search:
    finds the number, if it is not published. no_tlc: why TLC is not asked by night.
    """

    name: str
    system: System
    states: int
    source: str
    violated: frozenset[str] = frozenset()
    larger: tuple[tuple[str, int], ...] = ()
    search: Callable[[], int] | None = None
    no_tlc: str = ""

    def configuration(self, name: str = "default") -> Configuration:
        """The sizes."""
        return self.system.configurations[name]


def reached(
    starts: Iterable[Hashable], successors: Callable[..., Iterable[Hashable]]
) -> int:
    """How many states a plain search finds."""
    order = list(dict.fromkeys(starts))
    seen = set(order)
    for state in order:
        for after in successors(state):
            if after not in seen:
                seen.add(after)
                order.append(after)
    return len(seen)
