"""Exit status: 0 holds, 1 violated, 2 usage or spec error, 3 unknown (a limit was
reached), 4 internal error.
"""

import argparse
import importlib
import os
import resource
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Final, NamedTuple, TypeAlias

from pdproto import __version__
from pdproto.cli.words import complaint
from pdproto.runtime.extras import RUNTIME, not_installed

# The rest of the package is slow to import. `main` imports it, where Ctrl-C is handled.


class Verb(NamedTuple):
    """A verb: its line of help, and the module that declares its options and runs it."""

    told: str
    module: str


Verbs: TypeAlias = Mapping[str, Verb]


def _verbs(*lines: tuple[str, str]) -> Verbs:
    return {name: Verb(told, f"pdproto.cli.{name}") for name, told in lines}


GROUPS: Final[Mapping[str, Verbs]] = {
    "check a protocol": _verbs(
        ("check", "explore every state of a system, and check its properties"),
        ("lint", "find unanswered events, ambiguous and unused rows"),
        ("prove", "prove the properties for every size"),
        ("explore", "step through a system in the browser or in the terminal"),
        ("run", "walk through a system at random, and count how often each row fires"),
        ("fuzz", "let Hypothesis try the processes with events in any order"),
        ("sim", "run the processes in virtual time: one seed, one run"),
        ("mutate", "make one change to the tables at a time: does a property detect it?"),
        ("trace", "replay traces of real runs against the tables"),
        ("export", "write a system as documentation, as TLA+, or as a graph of states"),
        ("mcp", "serve check, lint, trace and why-not to an agent that writes specs"),
    ),
    "run nodes": _verbs(
        ("handoff", "hand over pages between real processes, and verify every byte"),
        ("node", "look at nodes, print their settings, write the keys of a cluster"),
        ("registry", "serve the registry: prefill ranks register, decode finds them"),
    ),
}
# Names of former verbs, for one release.
FORMER: Final[Mapping[str, str]] = {
    "step": "`pdproto explore --text`",
    "tables": "`pdproto export --markdown`",
    "merge": "--merge of the verb that had --shard, as in `pdproto prove --merge FILE ...`",
    "cache": "--no-cache, or remove the folder ~/.cache/pdproto",
    "serve": "`pdproto registry`",
    **{name: f"`pdproto node {name}`" for name in ("top", "probe", "settings", "keys")},
    "bench": "`python -m lab bench`, in a clone",
}


class Program(NamedTuple):
    """A command: its name as a user types it, and its verbs in groups."""

    name: str
    groups: Mapping[str, Verbs]

    @property
    def verbs(self) -> Verbs:
        """The verbs of all groups."""
        return {name: verb for group in self.groups.values() for name, verb in group.items()}


PDPROTO: Final = Program("pdproto", GROUPS)
VERBS: Final = PDPROTO.verbs
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
MIB: Final = 1 << 20
ADDRESSES_MIN: Final = 512 * MIB  # the libraries of each verb load in these


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb of pdproto, and return the exit status."""
    return command(sys.argv[1:] if argv is None else argv, PDPROTO)


def command(argv: Sequence[str], program: Program, *, once: bool = False) -> int:
    """Run a verb of this program; returns the exit status. An expected error is a line on stderr.

    once: run it once even with --watch.
    """
    try:
        return _command(list(argv), program, once=once)
    except Exception as error:  # an error cannot be told: Python's own status says "violated"
        return _failed(f"no answer: {type(error).__name__} while another error was told", UNKNOWN)


def _command(arguments: list[str], program: Program, *, once: bool) -> int:
    named = complaint(arguments)
    if named is not None:
        return _failed(named, USAGE)
    if arguments and arguments[0] in {*FORMER} - {*program.verbs}:
        now = FORMER[arguments[0]]
        return _failed(f"there is no verb {arguments[0]} any more: use {now}", USAGE)
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if addresses != resource.RLIM_INFINITY:
        if addresses < ADDRESSES_MIN:
            return _failed(f"its libraries do not load in {addresses // MIB} MiB of address space: "
                           f"allow {ADDRESSES_MIN // MIB} (ulimit -v)", UNKNOWN)
        # Without room for the stacks of its threads, this library ends the process with 1.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from pdproto.cli.options import remove_reports  # noqa: PLC0415 - see above

        parsed = parser_for(arguments, program).parse_args(arguments)
        remove_reports(parsed)
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
        with suppress(OSError):  # as in _failed
            traceback.print_exc()
        return _failed("this is a bug in pdproto: please report it with the lines above", INTERNAL)


def _comes_of_an_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C caused the error: Python wraps it if it comes while a class is created, and
    ctypes only names it if it comes while an argument is made.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        if KeyboardInterrupt.__name__ in str(error):
            return True
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
    # On a full disk no line can be written, and Python would end with 1, which says "violated".
    with suppress(OSError):
        print(f"pdproto: {message}", file=sys.stderr)  # noqa: T201 - the command line's own output
    return status


def parser_for(
    arguments: Sequence[str], program: Program = PDPROTO
) -> argparse.ArgumentParser:
    """The parser for these arguments. It imports only the module of their verb."""
    from pdproto.cli.options import Parser, VerbParser  # noqa: PLC0415 - see above

    parser = Parser(
        prog=program.name, usage="%(prog)s [-h] [--version] VERB ...", epilog=__doc__,
        description=_listed(program), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"pdproto {__version__}")
    verbs = parser.add_subparsers(
        dest="verb", required=True, metavar="VERB", help=argparse.SUPPRESS, prog=program.name,
        parser_class=VerbParser,
    )
    asked = next((argument for argument in arguments if argument in program.verbs), None)
    for name, verb in program.verbs.items():
        child = verbs.add_parser(name)
        if name == asked:
            module = importlib.import_module(verb.module)
            child.description = module.__doc__
            module.configure(child)
            child.set_defaults(run=module.run)
    return parser


def _listed(program: Program) -> str:
    """The verbs of each group, a line each."""
    return "\n\n".join(
        "\n".join([f"{title}:", *(f"  {name:<9} {verb.told}" for name, verb in verbs.items())])
        for title, verbs in program.groups.items())


def entry_point() -> None:
    """The `pdproto` command."""
    # Python sets a stream to None if the caller has closed it (`2>&-`).
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.exit(main())


if __name__ == "__main__":
    entry_point()
