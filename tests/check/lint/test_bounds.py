"""Sizes that are too large for the rules: one line says so at once, and nothing is examined."""

import pytest

from pdproto.check.lint import bounds, lint, small
from pdproto.check.lint.bounds import require_small
from pdproto.check.rigid import interpretations
from pdproto.cli.main import main
from pdproto.cli.systems import load
from pdproto.ground.layout import TooLargeError
from pdproto.spec.catalogue import CATALOGUE
from pdproto.spec.entry import Entry
from pdproto.spec.examples import alternating_bit, lock_server
from pdproto.spec.language import Configuration

ITEM = alternating_bit.Item
CLIENT, ROUND = lock_server.Client, lock_server.Round


@pytest.mark.parametrize("asked", [
    ("lint", "alternating-bit", "--size", "Item=1000"), ("lint", "paxos", "--size", "Value=1000"),
    ("lint", "lock-server", "--size", "Client=100")], ids=" ".join)
def test_lint_says_that_it_asked_nothing(
    asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(asked) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pdproto: lint asked nothing at ")
    assert asked[-1] in err
    assert err.endswith("without --size, lint takes 2 of each sort; give smaller sizes with "
                        "--size\n")
    assert err.count("\n") == 1


def test_the_line_names_the_row_with_the_most_cases() -> None:
    # ask has 100 clients, 2 rounds, and 6 cases of its guard: it compares with each other round.
    with pytest.raises(TooLargeError, match="9,800 cases of rows, 1,200 of them of row 'ask', on"):
        require_small(lock_server.SYSTEM, {CLIENT: 100, ROUND: 2})


def test_the_bound_counts_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    # 98 cases of rows for each client and 11 cells for it, and one cell of the server.
    sizes = {CLIENT: 2, ROUND: 2}
    monkeypatch.setattr(bounds, "PAIRS_MAX", 196 * 23)
    require_small(lock_server.SYSTEM, sizes)
    monkeypatch.setattr(bounds, "PAIRS_MAX", 196 * 23 - 1)
    with pytest.raises(TooLargeError, match="196 cases of rows, 24 of them of row 'ask', on 23 c"):
        lint(lock_server.SYSTEM, Configuration(sizes))


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_every_configuration_is_examined(entry: Entry) -> None:
    system = load(entry.name)
    for configuration in (small(system), *system.configurations.values()):
        if {*system.sorts} <= {*configuration.sizes}:
            require_small(system, configuration.sizes)


def test_an_axiom_with_too_many_choices_is_not_asked() -> None:
    sizes = {ITEM: 1_000, alternating_bit.Place: 1}
    with pytest.raises(TooLargeError, match="the axiom nothing_is_between has 3,000,000,000 choi"):
        next(interpretations(alternating_bit.SYSTEM, sizes, Configuration(sizes)))
