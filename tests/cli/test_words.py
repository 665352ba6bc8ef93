"""A text that names nothing is refused, whatever verb or option has it: it is no bug of pdproto."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from lab.catalogue import LAB
from pdproto.cli.main import PDPROTO, USAGE, Program, command, parser_for
from pdproto.cli.words import WORD_MAX

ODD: Final = {"": "is empty", "a" * (WORD_MAX + 1): "want at most 4,096 characters",
              "a\0b": "want text without a zero byte", "a\udc80b": "want text in UTF-8"}
LEFT_OUT: Final = ("=", "=--")  # argparse makes an empty list of the second


def options(parser: argparse.ArgumentParser) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each option that takes a value, with the parts of the verb before it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, part in action.choices.items():
                yield from (((name, *words), option) for words, option in options(part))
        elif action.option_strings and action.nargs != 0:
            yield (), action.option_strings[-1]


@pytest.mark.parametrize("program", [PDPROTO, LAB], ids=lambda program: program.name)
def test_a_word_that_names_nothing_is_refused(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Seen red: status 4 in seven verbs, traces of a registry in the folder /, and a secret where
    --member had no name.
    """
    monkeypatch.chdir(tmp_path)
    for verb in program.verbs:
        for words, option in options(parser_for([verb], program)):
            if words[:1] != (verb,):
                continue
            cases = {f"{option}{left}": f"{option}: want a value" for left in LEFT_OUT}
            for odd, wanted in ODD.items():
                assert command([*words, odd], program) == USAGE, (words, odd[:9])
                assert wanted in capsys.readouterr().err
                cases[f"{option}={odd}"] = wanted if odd else f"{option}: want a value"
            for word, wanted in cases.items():
                assert command([*words, word], program) == USAGE, (words, word[:40])
                told = capsys.readouterr().err
                assert wanted in told
                assert told.count("\n") == 1
                assert len(told) < 200
            assert command([*words, option, ""], program) == USAGE
            assert f"{option}: want a value" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
