"""`pdproto VERB ...`. Exit status: 0 holds, 1 violated, 2 usage or spec error, 3 unknown (a limit
was reached), 4 internal error.
"""

import argparse
import importlib
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import Final

from pdproto import __version__
from pdproto.check.layout import TooLargeError
from pdproto.check.load import LoadError
from pdproto.cli.options import UsageError
from pdproto.spec.language.place import SpecError

VERBS: Final = ("check", "lint", "tables", "export", "bench")
USAGE: Final = 2
UNKNOWN: Final = 3
INTERNAL: Final = 4


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; every foreseeable error is one clear line on stderr."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = next((argument for argument in arguments if argument in VERBS), None)
    parser = _parser(verb)
    parsed = parser.parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except (SpecError, LoadError, TooLargeError, UsageError, OSError) as error:
        return _failed(str(error), USAGE)
    except KeyboardInterrupt:
        return _failed("interrupted before there was anything to report", UNKNOWN)
    except Exception:
        traceback.print_exc()
        return _failed("this is a bug in pdproto: please report it with the lines above", INTERNAL)


def _failed(message: str, status: int) -> int:
    print(f"pdproto: {message}", file=sys.stderr)  # noqa: T201 - the command line's own output
    return status


def _parser(verb: str | None) -> argparse.ArgumentParser:
    """The parser; only the verb that is asked for is imported in full."""
    parser = argparse.ArgumentParser(prog="pdproto", description=__doc__)
    parser.add_argument("--version", action="version", version=f"pdproto {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name in VERBS:
        if verb is not None and name != verb:
            verbs.add_parser(name)
            continue
        module = _module(name)
        child = verbs.add_parser(name, help=module.HELP, description=module.__doc__)
        module.configure(child)
        child.set_defaults(run=module.run)
    return parser


def _module(verb: str) -> ModuleType:
    return importlib.import_module(f"pdproto.cli.{verb}")


def entry_point() -> None:
    """The `pdproto` command."""
    sys.exit(main())


if __name__ == "__main__":
    entry_point()
