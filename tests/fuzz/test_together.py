"""Arguments that are drawn together: odd values, and others, of all public calls.

By day each argument gets each odd value once, the others being right (test_arguments.py and its
neighbours, whose cases these are).
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdproto import HandoffFailedError
from pdproto.node.faults import FaultsError
from pdproto.runtime.errors import ProtocolError
from pdproto.vllm.early import SERVER, TRANSFER_ID
from pdproto.vllm.offer import FOR_DECODE, FROM_PREFILL, GOES_ON, KEY
from pdproto.vllm.seals import Seals
from tests.fuzz import test_arguments, test_drivers, test_public_calls, test_public_functions
from tests.fuzz.test_arguments import (
    ODD,
    OFFER,
    SHORT,
    Case,
    World,
    require_offer_or_reason,
    seals,  # noqa: F401 - a fixture
)
from tests.node.data_paths import cluster
from tests.property.profiles import NIGHTLY
from tests.tiers import examples

DRAWN: Final = st.one_of(
    st.text(), st.binary(), st.integers(), st.floats(), st.lists(st.integers()))
LEAVES: Final = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(),
    st.sampled_from(["\udc80", "tcp://127.0.0.1:9", "tcp://[::1]:9", "127.0.0.1:9", "0/0"]))
JSON: Final = st.recursive(LEAVES, lambda inner: st.one_of(
    st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12)
KEYS: Final = KEY, SERVER, TRANSFER_ID, FROM_PREFILL, FOR_DECODE, GOES_ON


def every(world: World, folder: Path) -> Iterator[Case]:
    """The cases of all public calls."""
    yield from test_arguments.cases(world)
    yield from test_arguments.constructors(world)
    yield from test_arguments.path_constructors()
    yield from test_arguments.registry_cases()
    yield from test_public_calls.seeking(world)
    yield from test_public_calls.nodes(world)
    yield from test_public_calls.values()
    yield from test_public_functions.functions(world.nodes, folder)
    yield from test_drivers.cases()


@pytest.mark.nightly
@settings(max_examples=1_000 if NIGHTLY else 30, deadline=None,
          suppress_health_check=list(HealthCheck))
@given(st.data())
def test_odd_values_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    monkeypatch.chdir(tmp_path)  # odd values are names of files, too
    with cluster(waits=SHORT) as nodes:
        world = World(nodes)
        cases = list(every(world, tmp_path))
        for _ in range(20):
            case = data.draw(st.sampled_from(cases))
            argument = st.sampled_from(sorted(case.good))
            drawn = data.draw(st.dictionaries(argument, DRAWN))
            odd = data.draw(st.dictionaries(argument, st.sampled_from(sorted(ODD))))  # have no repr
            with suppress(TypeError, ValueError, ProtocolError, HandoffFailedError, FaultsError):
                case.call(**case.good | drawn | {name: ODD[one] for name, one in odd.items()})
        world.ends()


@settings(max_examples=20_000 if NIGHTLY else examples(40, 300), deadline=None,
          suppress_health_check=list(HealthCheck))
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, JSON)),
       st.none() | st.fixed_dictionaries({}, optional=dict.fromkeys(OFFER, JSON)))
def test_drawn_parameters_are_an_offer_or_refused(
    seals: Sequence[Seals],  # noqa: F811 - a fixture
    params: dict[str, Any], fields: dict[str, Any] | None,
) -> None:
    """fields: of an offer that is right but for them."""
    if fields is not None:
        params[KEY] = OFFER | fields
    for read in test_public_functions.readers().values():
        with suppress(ValueError):
            read(params)
    require_offer_or_reason(params, seals)
