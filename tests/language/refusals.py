"""Malformed specs and the words in which they are refused, at the line that ends in a marker."""

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from pdproto.spec.language import SpecError
from tests.language.tiny import Parts

MARKER: Final = "# <- here"

Build: TypeAlias = Callable[[Any], object]
Refusal: TypeAlias = tuple[Build, str]


def wrong(value: Any) -> Any:
    """A value where a type checker would not let it stand."""
    return value


def refusals(registered: list[Refusal]) -> Callable[[str], Callable[[Build], Build]]:
    """A decorator of malformed specs with the words of their errors; it adds them to the list."""

    def malformed(problem: str) -> Callable[[Build], Build]:
        def register(build: Build) -> Build:
            registered.append((build, problem))
            return build

        return register

    return malformed


def is_refused(build: Build, problem: str) -> None:
    """The spec is refused with these words, at its marked line."""
    lines, start = inspect.getsourcelines(build)
    (marked,) = (start + k for k, line in enumerate(lines) if line.rstrip().endswith(MARKER))
    with pytest.raises(SpecError) as caught:
        build(Parts())
    error = caught.value
    file = inspect.getsourcefile(build)
    assert file is not None
    assert file.endswith(error.place.path)
    assert error.place.line == marked
    assert str(error) == f"{error.place}: {error.problem}"
    # What was declared first stands somewhere above; its line is checked by a test of its own.
    assert error.problem.partition(", first at ")[0] == problem.partition(", first at ")[0]
