"""Put the answers of shards together: one verdict, one report, one exit status.

FILES are what `check`, `prove`, `mutate`, `bugs` and `sim` write with `--shard I/N`. They must
answer one question: the same verb and arguments, pdproto and tables. Of one that is missing, every
task is unknown. Exit status: that of the verb without --shard; 2 for files that do not belong
together.
"""

import argparse
from importlib import import_module

from pdproto.check.shards import merged
from pdproto.cli.main import parser_for
from pdproto.cli.options import UsageError, check_targets

REPORTS = ("json", "junit", "sarif", "html")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto merge`."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="the answers of a shard")
    for kind in REPORTS:
        parser.add_argument(f"--{kind}", metavar="FILE|-", help=f"as --{kind} of the verb")


def run(arguments: argparse.Namespace) -> int:
    """Merge; returns the exit status."""
    wanted = {kind: file for kind in REPORTS if (file := getattr(arguments, kind)) is not None}
    check_targets(wanted.values())
    answers = merged(arguments.files)
    question = answers.question
    given = [question.verb, *question.arguments]
    asked = parser_for(given, arguments.program).parse_args(given)
    for kind, file in wanted.items():
        if not hasattr(asked, kind):
            raise UsageError(f"--{kind}: `pdproto {question.verb}` writes no such report")
        setattr(asked, kind, file)
    asked.quiet = True
    return int(import_module(arguments.program.verbs[question.verb].module).merge(asked, answers))
