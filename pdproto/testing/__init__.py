"""Tests made from a spec: fuzzers for live ends, tours, and a conformance kit for other engines.

`conformance` compares an engine of your own with the tables; adapter.py lists the methods that it
needs.
`machine.Fuzzer` and `single.OneEnd` fuzz any system's tables as the runtime runs them, and
`tour.tour` takes every transition. The extra `testing` must be installed.
"""

from typing import TYPE_CHECKING, Any

from pdproto.testing.adapter import GONE, WRITE, Adapter, Said, Side

if TYPE_CHECKING:
    from pdproto.testing.kit import Conformed, NonConformanceError, conformance

__all__ = [
    "GONE", "WRITE", "Adapter", "Conformed", "NonConformanceError", "Said", "Side", "conformance",
]


def __getattr__(name: str) -> Any:
    # The pytest plugin imports this package in every test run, with Hypothesis or without.
    if name in __all__:
        from pdproto.testing import kit  # noqa: PLC0415 - see above

        return getattr(kit, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
