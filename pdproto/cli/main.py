"""`pdproto VERB ...`. Exit status: 0 holds, 1 violated, 2 usage or spec error, 3 unknown (a limit
was reached), 4 internal error.
"""

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Final, NamedTuple

from pdproto import __version__
from pdproto.runtime.extras import RUNTIME, not_installed

# The rest of the package is slow to import. `main` imports it, where Ctrl-C is handled.


class Verb(NamedTuple):
    """A verb: its line of help, and the module that declares its options and runs it."""

    told: str
    module: str


VERBS: Final[Mapping[str, Verb]] = {
    name: Verb(told, f"pdproto.cli.{name}") for name, told in (
        ("check", "explore every state of a system and check its properties"),
        ("explore", "step through a system in the browser"),
        ("step", "step through a system in the terminal"),
        ("run", "walk through a system at random, and count how often each row fires"),
        ("mutate", "make one change to the tables at a time: does a property detect it?"),
        ("handoff", "hand over real pages between real processes, and verify every byte"),
        ("sim", "run nodes or your own system in virtual time, where one seed replays a run"),
        ("fuzz", "let Hypothesis try the processes of a system with events in any order"),
        ("trace", "replay traces of real runs against the tables"),
        ("top", "show the present state of nodes: queues, leases, rates, and stuck hand-overs"),
        ("probe", "ask a node or a registry whether it is healthy, ready or empty"),
        ("settings", "print the settings of a node, and the source of each"),
        ("keys", "write the secret of a cluster, by which its processes recognize each other"),
        ("serve", "serve the registry, where prefill ranks register and decode finds them"),
        ("merge", "put the answers of shards together"),
        ("prove", "prove the properties of a system for all sizes"),
        ("lint", "find unanswered events, ambiguous and unused rows in the tables of a system"),
        ("mcp", "serve check, lint, trace and why-not to an agent that writes specs"),
        ("tables", "write the documentation of a system from its tables"),
        ("cache", "show the cache of results and proofs, or clear it"),
        ("export", "write a system in the language of another tool"),
        ("bench", "measure the speed of pdproto on this machine"),
    )
}


class Program(NamedTuple):
    """A command: its name as a user types it, and its verbs."""

    name: str
    verbs: Mapping[str, Verb]


PDPROTO: Final = Program("pdproto", VERBS)
USAGE: Final = 2
UNKNOWN: Final = 3
INTERNAL: Final = 4
EXTRAS: Final = {
    "torch": "kernels", "triton": "kernels", "matplotlib": "plot", "mcp": "mcp",
    "distributed": "dask", "duckdb": "duckdb", "hypothesis": "testing",
    **dict.fromkeys(RUNTIME, "runtime"),
}
OF_VERBS: Final = {"explore": "explore", "mcp": "mcp"}  # the extra with all that the verb needs
INTERRUPTED: Final = "interrupted before the answer was complete"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb of pdproto, and return the exit status."""
    return command(sys.argv[1:] if argv is None else argv, PDPROTO)


def command(argv: Sequence[str], program: Program, *, once: bool = False) -> int:
    """Run a verb of this program; returns the exit status. An expected error is a line on stderr.

    once: run it once even with --watch.
    """
    arguments = list(argv)
    try:
        parsed = parser_for(arguments, program).parse_args(arguments)
        parsed.given, parsed.program = arguments, program
        parsed.run_once = None if once else lambda: command(arguments, program, once=True)
        return int(parsed.run(parsed))
    except KeyboardInterrupt:
        return _failed(INTERRUPTED, UNKNOWN)
    except MemoryError:
        return _failed("memory ran out: give smaller sizes with --size", UNKNOWN)
    except BrokenPipeError:
        from pdproto.cli.options import discard_output  # noqa: PLC0415 - see above

        discard_output()
        return UNKNOWN
    except Exception as error:
        if _comes_of_an_interrupt(error):
            return _failed(INTERRUPTED, UNKNOWN)
        if _is_unanswered(error):
            return _failed(str(error), UNKNOWN)
        line = _foreseen(error, next((word for word in arguments if word in program.verbs), ""))
        if line is not None:
            return _failed(line, USAGE)
        traceback.print_exc()
        return _failed("this is a bug in pdproto: please report it with the lines above", INTERNAL)


def _comes_of_an_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C caused the error: Python wraps it if it comes while a class is created."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _is_unanswered(error: Exception) -> bool:
    """Whether a task or a search has no answer, because its workers or its disk were lost."""
    from pdproto.check.engine import StoppedError  # noqa: PLC0415 - see above
    from pdproto.check.executor_tasks import UnansweredError  # noqa: PLC0415 - see above

    return isinstance(error, StoppedError | UnansweredError)


def _foreseen(error: Exception, verb: str) -> str | None:
    """The message for an error of the user or the machine; None for a bug of pdproto."""
    from pdproto.check.load import LoadError  # noqa: PLC0415
    from pdproto.cli.options import UsageError  # noqa: PLC0415
    from pdproto.ground.layout import TooLargeError  # noqa: PLC0415 - see above
    from pdproto.spec.language.place import SpecError  # noqa: PLC0415

    match error:
        case TooLargeError():
            return f"{error}; give smaller sizes with --size"
        case ModuleNotFoundError(name=str(name)) if name in EXTRAS:
            return not_installed(name, OF_VERBS.get(verb, EXTRAS[name]))
        case OSError(filename=str() | PurePath() as path, strerror=str(why)):
            return f"{path}: {why}"
        case SpecError() | LoadError() | UsageError() | OSError():
            return str(error)
        case _:
            return None


def _failed(message: str, status: int) -> int:
    print(f"pdproto: {message}", file=sys.stderr)  # noqa: T201 - the command line's own output
    return status


def parser_for(
    arguments: Sequence[str], program: Program = PDPROTO
) -> argparse.ArgumentParser:
    """The parser for these arguments. It imports only the module of their verb."""
    from pdproto.cli.options import Parser, VerbParser  # noqa: PLC0415 - see above

    parser = Parser(prog=program.name, description=__doc__)
    parser.add_argument("--version", action="version", version=f"pdproto {__version__}")
    verbs = parser.add_subparsers(
        dest="verb", required=True, metavar="VERB", parser_class=VerbParser
    )
    asked = next((argument for argument in arguments if argument in program.verbs), None)
    for name, verb in program.verbs.items():
        child = verbs.add_parser(name, help=verb.told)
        if name == asked:
            module = importlib.import_module(verb.module)
            child.description = module.__doc__
            module.configure(child)
            child.set_defaults(run=module.run)
    return parser


def entry_point() -> None:
    """The `pdproto` command."""
    # Python sets a stream to None if the caller has closed it (`2>&-`).
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.exit(main())


if __name__ == "__main__":
    entry_point()
