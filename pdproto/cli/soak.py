"""Hand over pages between real processes for a long time, under every kind of fault.

A registry, prefill ranks, decode ranks and a faulty network between them run. The soak kills and
restarts ranks and the registry, drains and replaces prefill ranks, and pauses ranks. It cuts and
stalls connections. It loses, doubles, delays and reorders messages, and clients leave. No request
may be refused for a drain. From time to time it stops all faults and checks: each hand-over has
ended, every page and lease is released, every gauge is 0, every byte of a success is right, and
both sides agree. At the end no process may have a thread or a socket left. Exit status: 0 all of
this holds, 1 not.
"""

import argparse
import json
import sys

from pdproto.cli.numbers import natural
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    check_targets,
    console,
    whole_number,
    without,
    write,
)
from pdproto.drill.children import ended_in_order
from pdproto.drill.soak.cluster import ProcessLostError, SoakCluster
from pdproto.drill.soak.report import page, show
from pdproto.drill.soak.rounds import load_of, run_soak
from pdproto.engine.contract import EngineError
from pdproto.engine.engines import ENGINES, require


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto soak`."""
    parser.add_argument("--seconds", type=whole_number, default=600, metavar="S",
                        help="seconds to run, without the last rest (default: 600)")
    parser.add_argument("--seed", type=natural, default=0, metavar="N",
                        help="seed of load and faults; the timing of processes still varies "
                             "(default: 0)")
    parser.add_argument("--prefill", type=whole_number, default=2, metavar="N",
                        help="prefill ranks, each a pipeline stage with layers of its own "
                             "(default: 2)")
    parser.add_argument("--decode", type=whole_number, default=2, metavar="N",
                        help="decode ranks, each a server of its own (default: 2)")
    parser.add_argument("--engine", choices=sorted(ENGINES), default="tcp",
                        help="how bytes move (default: tcp)")
    parser.add_argument("--in-flight", type=whole_number, default=8, metavar="N",
                        help="hand-overs open at the same time at a decode rank (default: 8)")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", metavar="FILE", help="write the result; - for standard output")
    parser.add_argument("--record", metavar="FILE", help="write the result as a Markdown page")
    parser.add_argument("--commit", default="", help="the commit under test, for that page")


def run(arguments: argparse.Namespace) -> int:
    """Run the soak and report; returns the exit status."""
    check_targets([arguments.json, arguments.record])
    try:
        require(arguments.engine)
    except EngineError as error:
        raise UsageError(str(error)) from error
    load = load_of(arguments.seed, arguments.in_flight, arguments.decode)
    with ended_in_order():
        try:
            cluster = SoakCluster(prefill=arguments.prefill, decode=arguments.decode, load=load,
                              engine=arguments.engine, in_flight=arguments.in_flight)
        except ProcessLostError as error:
            raise UsageError(str(error)) from error
        result = run_soak(cluster, arguments.seconds, arguments.seed, quiet=arguments.quiet)
    if arguments.json:
        write(json.dumps(result.numbers(), indent=2) + "\n", arguments.json)
    if arguments.record:
        command = " ".join(["pdproto", *without(sys.argv[1:], ("--record", "--commit", "--json"))])
        write(page(result, command, arguments.commit), arguments.record)
    if arguments.json != STANDARD_OUTPUT:
        with console() as out:
            show(result, out)
    return 1 if result.books.complaints else 0
