"""The options --shard, --answers and --merge of verbs that can do a part of their tasks."""

import argparse
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from pdproto.cli.main import parser_for
from pdproto.cli.options import REPORTS, UsageError, check_targets, console, write

if TYPE_CHECKING:  # a run without --shard does not import them
    from pdproto.check.shards import Merged, Shard

# Options that change no answer: with a value, and without one.
VALUED: Final = ("--shard", "--answers", "--workers", "--executor", "--json", "--junit", "--sarif",
                 "--html", "--mermaid", "--format", "--export", "--trace")
FLAGS: Final = ("--quiet", "--no-cache")
SHARDS_MAX: Final = 10_000
WITH_MERGE: Final = (*REPORTS, "format", "workers", "executor", "quiet", "no_cache", "merge")
POSITIONAL: Final = ("system", "systems", "id")
UNKNOWN: Final = 3
VERDICTS: Final = {0: "nothing is violated", 1: "violated", UNKNOWN: "unknown"}


def add_shard(parser: argparse.ArgumentParser) -> None:
    """Add --shard and --answers, which `shard` reads, and --merge, which `merged_run` reads."""
    parser.add_argument(
        "--shard", metavar="I/N", type=_shard,
        help="do part I of N of the tasks alone, and write the answers for --merge",
    )  # fmt: skip
    parser.add_argument("--answers", metavar="FILE",
                        help="the file of --shard (default: VERB-I-of-N.json)")
    parser.add_argument("--merge", metavar="FILE", nargs="+",
                        help="put the answers of the shards of one run together: one verdict, one "
                             "report, one exit status. Of a shard that is missing, every task is "
                             "unknown")


def _shard(text: str) -> "Shard":
    from pdproto.check.shards import Shard  # noqa: PLC0415 - see above

    found = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", text)
    if found is not None:
        shard = Shard(int(found[1]), int(found[2]))
        if 1 <= shard.number <= shard.count <= SHARDS_MAX:
            return shard
    raise argparse.ArgumentTypeError(
        f"want I/N with I from 1 to N, and N at most {SHARDS_MAX:,}, not {text[:40]!r}")


def shard(arguments: argparse.Namespace) -> "Shard | None":
    """The shard of --shard; None for the whole. Raises UsageError, also for a file of answers that
    cannot be written.
    """
    part: Shard | None = arguments.shard
    if part is None:
        if arguments.answers is not None:
            raise UsageError("--answers is the file of a shard: give --shard I/N too")
        return None
    for kind in REPORTS:
        if getattr(arguments, kind, None) is not None:
            raise UsageError(f"--shard writes answers, and no report: give --{kind} with --merge")
    _require_full_names(arguments)
    check_targets([_file(arguments, part)])
    return part


def _require_full_names(arguments: argparse.Namespace) -> None:
    """Raise UsageError unless the arguments that are kept ask for the same answers."""
    kept = [arguments.verb, *asked(arguments.given)]
    again = vars(parser_for(kept, arguments.program).parse_args(kept))
    left_out = {option[2:].replace("-", "_") for option in (*VALUED, *FLAGS)} | {"run"}
    if again["shard"] is not None or any(
            again[name] != value for name, value in vars(arguments).items()
            if name in again and name not in left_out):
        raise UsageError("with --shard, write the names of options in full")


def keep_answers(
    arguments: argparse.Namespace, answers: Sequence[object], status: int, *, tables: str = "",
    unknown: str = f"{VERDICTS[UNKNOWN]} here",
) -> int:
    """Write the answers of a shard, and print a line. Returns the exit status, which is given.

    tables: see RunQuestion. unknown: the verdict in words, if the status is 3.
    """
    from pdproto.check.shards import RunQuestion, encoded  # noqa: PLC0415 - see above

    part: Shard = arguments.shard
    file = _file(arguments, part)
    question = RunQuestion(arguments.verb, asked(arguments.given), tables)
    write(encoded(question, part, answers), file)
    with console() as drawn:
        verdict = unknown if status == UNKNOWN else f"{VERDICTS[status]} here"
        drawn.print(f"shard {part}: {verdict}; `{arguments.program.name} {arguments.verb} --merge` "
                    f"puts {file} and the other shards together",
                    markup=False, highlight=False, soft_wrap=True)
    return status


def merged_run(
    arguments: argparse.Namespace, merge: Callable[[argparse.Namespace, "Merged"], int]
) -> int:
    """Call `merge` with what the shards were asked, and with their answers; returns its status.

    Reports and workers are those of these arguments. Raises UsageError for other arguments, and
    LoadError for files that do not belong together.
    """
    from pdproto.check.shards import merged  # noqa: PLC0415 - see above

    verb, program = arguments.verb, arguments.program
    plain = vars(parser_for([verb], program).parse_args([verb]))
    given = [name for name, value in plain.items() if name not in (*WITH_MERGE, "run")
             and getattr(arguments, name) != value]
    if given:
        name = "SYSTEM" if given[0] in POSITIONAL else f"--{given[0].replace('_', '-')}"
        raise UsageError(f"--merge: its files say what was asked: leave out {name}, and all but "
                         f"reports")
    check_targets(getattr(arguments, kind, None) for kind in REPORTS)
    answers = merged(arguments.merge)
    question = answers.question
    if question.verb != verb:
        raise UsageError(f"{arguments.merge[0]} has answers of {question.verb}: use "
                         f"`{program.name} {question.verb} --merge`")
    shards = [verb, *question.arguments]
    asked_for = parser_for(shards, program).parse_args(shards)
    for name in WITH_MERGE:
        if name in plain:
            setattr(asked_for, name, getattr(arguments, name))
    return merge(asked_for, answers)


def _file(arguments: argparse.Namespace, part: "Shard") -> str:
    return arguments.answers or f"{arguments.verb}-{part.number}-of-{part.count}.json"


def asked(given: Sequence[str]) -> tuple[str, ...]:
    """The arguments without the verb, and without the options that change no answer."""
    _, *rest = given
    kept: list[str] = []
    while rest:
        argument = rest.pop(0)
        name, has_value, _ = argument.partition("=")
        if name in VALUED:
            del rest[:0 if has_value else 1]
        elif name not in FLAGS:
            kept.append(argument)
    return tuple(kept)
