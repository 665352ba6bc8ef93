"""Step through a system in the terminal: numbered rows, why others cannot fire, undo.

Commands come from standard input, so a walk can be replayed from a file. `pdproto explore` shows
the same in the browser.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator

from pdproto.check.stepping.dialogue import Dialogue
from pdproto.cli.options import standard_output
from pdproto.cli.reports import say
from pdproto.cli.starting import Start, add_start, start


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto step`."""
    add_start(parser)


def run(arguments: argparse.Namespace) -> int:
    """Answer line by line until the user quits; returns the exit status."""
    begun = start(arguments)
    for line in begun.told:
        say(line)
    dialogue = Dialogue(begun.walker, begun.source, begun.path)
    _say([_title(begun), *dialogue.opening()])
    for line in _lines():
        _say(dialogue.answer(line))
        if dialogue.over:
            break
    return 0


def _title(begun: Start) -> str:
    facts = ", ".join(f"{label} {value}" for label, value in begun.facts)
    return f"{begun.walker.system.name}: {facts}"


def _lines() -> Iterator[str]:
    """The lines of the user, with a prompt at a terminal."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            yield input(prompt)
        except EOFError:
            return


def _say(lines: Iterable[str]) -> None:
    with standard_output() as stream:
        stream.writelines(f"{line}\n" for line in lines)
