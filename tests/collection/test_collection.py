"""Published models have the published numbers of states, and the published verdicts."""

from dataclasses import replace

import pytest

from lab.compare import compare
from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import NATIVE, PORTABLE
from pdproto.check.opinions import tlc
from pdproto.check.opinions.opinion import NotInstalledError
from pdproto.check.result import Verdict
from pdproto.spec.language import LeadsTo
from tests.collection.examples import EXAMPLES
from tests.collection.model import Model
from tests.collection.page import MODELS, NATURAL, PAGE, page

SLOW = 3_000  # states that the portable engine visits by day
LARGE = 500_000  # states that are not explored by day


@pytest.mark.parametrize("model", [
    pytest.param(model, id=model.name, marks=[pytest.mark.nightly] * (model.states > LARGE))
    for model in MODELS])
def test_the_states_and_verdicts_of_a_published_model(model: Model) -> None:
    small = model.states < SLOW and not model.configuration().symmetry
    for engine in (NATIVE, PORTABLE) if small else (NATIVE,):
        result = check(model.system, model.configuration(),
                       CheckSettings(keep_going=True, engine=engine))
        assert result.states == model.states
        assert {one.name for one in result.findings
                if one.verdict is Verdict.VIOLATED} == model.violated


@pytest.mark.parametrize("model", [model for model in MODELS if model.search is not None],
                         ids=lambda model: model.name)
def test_a_plain_search_finds_the_number(model: Model) -> None:
    assert model.search is not None
    assert model.search() == model.states


@pytest.mark.parametrize(("model", "name", "states"), [
    (model, name, states) for model in MODELS for name, states in model.larger],
    ids=lambda value: value.name if isinstance(value, Model) else str(value))
def test_the_states_at_other_sizes(model: Model, name: str, states: int) -> None:
    result = check(replace(model.system, properties=(), like=model.system),
                   model.configuration(name), CheckSettings(keep_going=True))
    assert result.states == states


@pytest.mark.nightly
@pytest.mark.parametrize("model", [model for model in MODELS if not model.no_tlc],
                         ids=lambda model: model.name)
def test_tlc_says_the_same(model: Model) -> None:
    try:
        tlc.jar()
    except NotInstalledError as missing:
        pytest.skip(str(missing))
    # Of the safety properties: TLC of 2020 cannot evaluate a Cardinality in a temporal formula.
    safe = tuple(one for one in model.system.properties if not isinstance(one, LeadsTo))
    system = replace(model.system, properties=safe, like=model.system)
    told = compare(system, "default", model.configuration(), ("tlc",))
    assert told.missing == {}
    assert told.differences == ()
    assert [one.states for one in told.opinions[1:]] == [model.states]


def test_each_model_with_a_published_number_is_one_of_the_collection() -> None:
    """Its examples are 79, of which 60 were to be natural; what is written is natural."""
    assert len({one.folder for one in EXAMPLES}) == len(EXAMPLES) == 79
    claimed = {model.name for model in MODELS if model.source in {"published", "TLC"}}
    named = {name for one in EXAMPLES for name in one.models}
    assert claimed <= named <= {model.name for model in MODELS}
    assert not [one.folder for one in EXAMPLES if one.models and one.lacks]
    assert NATURAL >= 60


def test_the_page_has_each_model() -> None:
    """If this fails, run `python -m tests.collection.page` and look at it."""
    assert PAGE.read_text(encoding="utf-8") == page()
