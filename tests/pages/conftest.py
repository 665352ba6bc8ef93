"""Each test of this folder gives back the shared memory that it has mapped."""

import gc
from collections.abc import Iterator

import pytest

from tests.node.leftovers import mapped


def kept() -> set[str]:
    """The shared memory that is mapped, without that which only a cycle still refers to."""
    if mapped():
        gc.collect()
    return mapped()


@pytest.fixture(autouse=True)
def no_memory_is_left() -> Iterator[None]:
    before = kept()
    yield
    assert kept() <= before
