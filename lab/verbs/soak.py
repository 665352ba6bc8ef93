"""Hand over pages between real processes for a long time, under every kind of fault.

A registry, prefill ranks, decode ranks and a faulty network between them run. The soak kills and
restarts ranks and the registry, drains and replaces prefill ranks, and pauses ranks. It cuts and
stalls connections. It loses, doubles, delays and reorders messages, and clients leave. No request
may be refused for a drain, or fail because a rank that said it was empty was ended. From time to
time the soak stops all faults and checks: each hand-over has ended, every page and lease is
released, every gauge is 0, every byte of a success is right, both sides agree, and the memory of no
process grows with the hand-overs. At the end no process may have a thread or a socket left.

With --resume the result is kept in a file after each of these rests, and the same command goes on
from it. A complaint ends the soak; with --keep-going it goes on after those that it has. Exit
status: 0 all of this holds, 1 not, 3 the soak is not over (--stop-after), has compared no byte,
or has not shown the defect of --bug, which proves nothing.
"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path

from lab.sim import planted
from lab.soak.report import SoakResult, page, show
from lab.soak.rounds import run_soak
from lab.soak.state import SoakSettings, SoakState, StateFileError, load, save
from pdproto.cli.numbers import natural, positive
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    check_targets,
    console,
    whole_number,
    without,
    write,
)
from pdproto.drill.children import ChildLostError, ended_in_order
from pdproto.engine.contract import EngineError
from pdproto.engine.engines import ENGINES, refuse_host_pools, require

NOT_OVER = 3  # or unknown
NOT_OF_THE_SOAK = ("--record", "--commit", "--json", "--stop-after")
KEEP_GOING = "--keep-going"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `python -m lab soak`."""
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=whole_number, default=600, metavar="S",
                        help="seconds to run, without the last rest (default: 600)")
    length.add_argument("--handoffs", type=whole_number, metavar="N",
                        help="hand-overs to run, instead of seconds")
    parser.add_argument("--resume", metavar="FILE",
                        help="go on from the state in this file, if there is one, and keep the "
                             "state there")
    parser.add_argument("--stop-after", type=positive, metavar="S",
                        help="with --resume, end this run at the first rest after so many seconds")
    parser.add_argument(KEEP_GOING, action="store_true",
                        help="with --resume, go on although there are complaints: they stay in the "
                             "result")
    parser.add_argument("--seed", type=natural, default=0, metavar="N",
                        help="seed of load and faults; the timing of processes still varies "
                             "(default: 0)")
    parser.add_argument("--prefill", type=whole_number, default=2, metavar="N",
                        help="prefill ranks, each a pipeline stage with layers of its own "
                             "(default: 2)")
    parser.add_argument("--decode", type=whole_number, default=2, metavar="N",
                        help="decode ranks, each a server of its own (default: 2)")
    parser.add_argument("--engine", choices=sorted(ENGINES), nargs="+", default=["tcp"],
                        help="how bytes move; several take turns (default: tcp)")
    parser.add_argument("--in-flight", type=whole_number, default=16, metavar="N",
                        help="hand-overs open at the same time at a decode rank (default: 16)")
    parser.add_argument("--bug", metavar="ID",
                        help="run the tables with this historical defect, in all ranks")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", metavar="FILE", help="write the result; - for standard output")
    parser.add_argument("--record", metavar="FILE", help="write the result as a Markdown page")
    parser.add_argument("--commit", default="", help="the commit under test, for that page")


def run(arguments: argparse.Namespace) -> int:
    """Run the soak and report; returns the exit status."""
    state = _state(arguments)
    if not state.is_over:
        keep = partial(save, Path(arguments.resume), state) if arguments.resume else lambda: None
        try:
            with ended_in_order():
                run_soak(state, quiet=arguments.quiet, keep=keep, stop_after=arguments.stop_after)
        except ChildLostError as error:
            raise UsageError(str(error)) from error
    result = SoakResult(state)
    if arguments.json:
        write(json.dumps(result.numbers(), indent=2) + "\n", arguments.json)
    if arguments.record:
        given = [one for one in sys.argv[1:] if one != KEEP_GOING]
        command = " ".join(["python -m lab", *without(given, NOT_OF_THE_SOAK)])
        write(page(result, command), arguments.record)
    if arguments.json != STANDARD_OUTPUT:
        with console() as out:
            show(result, out)
    if state.totals.complaints:
        return 1
    if state.is_over and arguments.bug is not None:
        sys.stderr.write(f"pdproto: --bug {arguments.bug}: this soak has not shown the defect; it "
                         f"arranges no race: `python -m lab race` does\n")
        return NOT_OVER
    return 0 if state.is_over and state.totals.verified_bytes else NOT_OVER


def _state(arguments: argparse.Namespace) -> SoakState:
    """The state to go on from. Raises UsageError if the soak cannot run."""
    check_targets([arguments.json, arguments.record, arguments.resume])
    if arguments.stop_after is not None and arguments.resume is None:
        raise UsageError("--stop-after: the rest of the soak would be lost: give --resume FILE too")
    if arguments.keep_going and arguments.resume is None:
        raise UsageError(f"{KEEP_GOING}: there is no complaint to go on after: give --resume FILE "
                         "too")
    if arguments.bug is not None:
        _check_bug(arguments.bug)
    settings = SoakSettings(
        seed=arguments.seed, prefill=arguments.prefill, decode=arguments.decode,
        engines=tuple(arguments.engine), in_flight=arguments.in_flight,
        handoffs=arguments.handoffs, seconds=arguments.seconds, bug=arguments.bug)
    try:
        for engine in settings.engines:
            require(engine)
            refuse_host_pools(engine, "want another engine")
        state = (SoakState(settings=settings) if arguments.resume is None
                 else load(Path(arguments.resume), settings))
    except (EngineError, StateFileError) as error:
        raise UsageError(str(error)) from error
    state.known = len(state.totals.complaints) if arguments.keep_going else 0
    if arguments.commit and arguments.commit not in state.commits:
        state.commits.append(arguments.commit)
    return state


def _check_bug(name: str) -> None:
    """Raise UsageError unless the processes of a drill run tables that can have this defect."""
    try:
        planted.named(name)
    except KeyError:
        known = dict.fromkeys(bug.id for bug in planted.runnable())
        raise UsageError(f"--bug {name}: the processes of this verb run no table with such a "
                         f"defect: choose one of {', '.join(known)}") from None
