"""Has the connector look at a request before vLLM's scheduler gets it.

vLLM makes each request in the thread that reads it from its front, beside that of the scheduler
(EngineCore.preprocess_add_request). It has no call of a connector there: a connector hears of a
request in the scheduler's thread, where each microsecond delays a step. So that method is wrapped.
What it finds is in an attribute of the request; where there is none, the scheduler's half looks.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

FOUND: Final = "pdproto_found"
Found = TypeVar("Found")


def look_ahead(engine: Any) -> None:
    """Have vLLM's class EngineCore call `look_ahead` of its connector. A second call does nothing.
    """
    make = engine.preprocess_add_request
    if hasattr(make, "__wrapped__"):
        return

    @wraps(make)
    def preprocess_add_request(core: Any, told: Any) -> tuple[Any, int]:
        request, wave = make(core, told)
        if not request.resumable:
            for look in calls_of(core.scheduler.get_kv_connector(), "look_ahead"):
                look(request)
        return request, wave

    engine.preprocess_add_request = preprocess_add_request


def calls_of(connector: Any, name: str) -> list[Callable[..., Any]]:
    """This method of our connectors: vLLM's connector is one, or is a MultiConnector and has some.
    """
    ours = (getattr(one, name, None) for one in getattr(connector, "_connectors", (connector,)))
    return [call for call in ours if call is not None]


def found(request: Any, look: Callable[[Any], Found]) -> Found:
    """What `look` finds of a request. It may have found it before, in another thread."""
    known: dict[Callable[[Any], Found], Found] = request.__dict__.setdefault(FOUND, {})
    if look not in known:
        known[look] = look(request)
    return known[look]
