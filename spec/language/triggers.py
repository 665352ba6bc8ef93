"""Triggers of rows, other than messages: calls, timers and completions."""

from dataclasses import dataclass
from typing import TypeAlias

from .kinds import require, require_name, shown
from .sorts import Sort
from .symbols import Sent


@dataclass(frozen=True, slots=True)
class Call:
    """The application calls it. Parameters are its arguments.

    any_time: the caller does not know the state, and may call in each. So each state must answer
    it, as it must answer a message. Without it, a state without a row does not offer the call.
    """

    name: str
    parameters: tuple[Sort, ...] = ()
    any_time: bool = False

    def __init__(self, name: str, *parameters: Sort, any_time: bool = False) -> None:
        _check_trigger("Call", name, parameters)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "parameters", parameters)
        object.__setattr__(self, "any_time", any_time)

    def __str__(self) -> str:
        return f"call {_applied(self.name, self.parameters)}"


@dataclass(frozen=True, slots=True)
class Timer:
    """A clock runs out. It may fire whenever its guard holds: a time-out enables, and proves
    nothing.

    detector: it reports that a peer is gone. Other timers are safety nets: liveness is also checked
    without them, because no step should wait for a timer that a message could have spared.
    """

    name: str
    detector: bool = False

    def __post_init__(self) -> None:
        require_name("Timer", self.name)

    def __str__(self) -> str:
        return f"timer {self.name}"


@dataclass(frozen=True, slots=True)
class Completion:
    """The device reports that an operation has ended. Parameters are its arguments."""

    name: str
    parameters: tuple[Sort, ...] = ()

    def __init__(self, name: str, *parameters: Sort) -> None:
        _check_trigger("Completion", name, parameters)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "parameters", parameters)

    def __str__(self) -> str:
        return f"completion {_applied(self.name, self.parameters)}"


def _check_trigger(kind: str, name: object, parameters: tuple[object, ...]) -> None:
    require_name(kind, name)
    for parameter in parameters:
        require(isinstance(parameter, Sort), f"{kind}({name!r}) has {shown(parameter)}: want "
                                             "variables, such as Worker('w')")


def _applied(name: str, parameters: tuple[Sort, ...]) -> str:
    return f"{name}({', '.join(map(repr, parameters))})" if parameters else name


Trigger: TypeAlias = Sent | Call | Timer | Completion | None
