"""Hand over real pages between real processes on this machine, and verify every byte.

It starts the ranks of a prefill and a decode server, hands over requests, and aborts some of them
on the way. It also kills and restarts a rank (--kill), drains and replaces one (--drain), or stops
the registry for a while (--cut). Then it checks that every byte arrived as it was sent, that both
sides agree on each outcome, and that all memory was released. `--bug` is `python -m lab race`.
Exit status: 0 all of this holds, 1 not, or the defect was seen, 3 no byte was compared, or the race
of the defect cannot be arranged.
"""

import argparse
import json
from math import gcd, lcm
from pathlib import Path
from typing import Final

from pdproto.check.report.progress import Reporter
from pdproto.check.result import EXIT_STATUS, Verdict
from pdproto.cli.numbers import amount, natural, positive
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    check_folder,
    check_targets,
    console,
    of_laboratory,
    remove,
    whole_number,
    write,
)
from pdproto.cli.systems import files_of_a_run
from pdproto.drill.children import ChildLostError, ended_in_order
from pdproto.drill.handoff.cluster import HandoffCluster
from pdproto.drill.handoff.load import Load, Topology
from pdproto.drill.handoff.pools import DEVICES, device_of
from pdproto.drill.handoff.run import WAITS, NothingKilledError, run_drill
from pdproto.drill.handoff.verdict import HandoffVerdict
from pdproto.engine.contract import EngineError
from pdproto.engine.engines import ENGINES, refuse_host_pools, require, require_page_fence
from pdproto.net.hosts import LOOPBACK, address_of, is_loopback, is_wildcard
from pdproto.transport.keys import Keys, new_secret, of_secret
from pdproto.transport.settings import Settings, SettingsError

TRACED: Final = b'{"n":1,"node":'  # how each trace begins


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto handoff`."""
    axes = (("pp", "pipeline stages"), ("tp", "tensor ranks"), ("cp", "context ranks"))
    for option, what in axes:
        parser.add_argument(f"--{option}", type=whole_number, default=1, metavar="N",
                            help=f"{what} of the prefill server (default: 1)")
    parser.add_argument("--requests", type=whole_number, default=200, metavar="N",
                        help="number of requests (default: 200)")
    parser.add_argument("--abort-rate", type=_rate, default=0.2, metavar="P",
                        help="share of requests that either side aborts (default: 0.2)")
    parser.add_argument("--kill", action="store_true",
                        help="kill a prefill rank (the seed chooses it) while it sends, after a "
                             "third of the requests, and restart its server")
    parser.add_argument("--drain", action="store_true",
                        help="drain the prefill rank while hand-overs run, after half of the "
                             "requests, and replace it when it is empty: no request may fail")
    parser.add_argument("--cut", type=positive, metavar="S",
                        help="after a third of the requests, stop the process of the registry for "
                             "so many seconds: hand-overs go on, a look-up fails with its reason, "
                             "and every rank comes back by itself")
    parser.add_argument("--engine", choices=sorted(ENGINES), default="shm",
                        help="how bytes move (default: shm)")
    parser.add_argument("--host", default=LOOPBACK, metavar="ADDRESS",
                        help="the address of this host at which all processes listen, IPv4 or "
                             "IPv6 (default: 127.0.0.1)")
    parser.add_argument("--keys", action="store_true",
                        help="let only processes speak that have the new keys of this run, as they "
                             "always do on another address than loopback")
    parser.add_argument("--direct", action="store_true",
                        help="write straight into decode's pages, with an engine that can fence "
                             "them (--engine tcp)")
    parser.add_argument("--device", choices=DEVICES, default="cpu",
                        help="where the pools are: in host memory (cpu), on the first GPU "
                             "(cuda), or on a device that the processor plays and that does all "
                             "work late: with the copies of a host (late), or with the kernels in "
                             "Triton's interpreter, which takes 0.1 s for a page (interpreter); "
                             "default: cpu")
    parser.add_argument("--in-flight", type=whole_number, default=32, metavar="N",
                        help="hand-overs open at the same time at a rank (default: 32)")
    parser.add_argument("--layers", type=whole_number, default=4, metavar="N",
                        help="number of pools of a rank (default: 4)")
    parser.add_argument("--page-bytes", type=_page_bytes, default=4096, metavar="N",
                        help="bytes of a page in one pool (default: 4096)")
    parser.add_argument("--pages", type=whole_number, default=8, metavar="N",
                        help="most pages of a request (default: 8)")
    parser.add_argument("--page-tokens", type=_page_tokens, default=(1, 1), metavar="P:D",
                        help="tokens of a page at prefill and at decode. If they differ, parts of "
                             "pages are handed over, of as many tokens as divide both, and "
                             "--pages and --page-bytes are those of parts (default: 1:1)")
    _configure_optimistic(parser)
    parser.add_argument("--publish-ms", type=amount, default=0.0, metavar="MS",
                        help="the time in which decode finds memory for a request (default: 0)")
    parser.add_argument("--inject", default="", metavar="F=P,...",
                        help="hand-overs that every rank fails on purpose, by moment, such as "
                             "bootstrap=0.1,transfer=0.02: probabilities from 0 to 1 (default: "
                             "none)")
    parser.add_argument("--seed", type=natural, default=0, metavar="N",
                        help="seed of the load: the same seed gives the same requests (default: 0)")
    parser.add_argument("--timeout", type=positive, default=600.0, metavar="S",
                        help="most seconds for all hand-overs (default: 600)")
    parser.add_argument("--bug", metavar="ID",
                        help="in a clone of the repository: instead of all this, arrange the race "
                             "of this historical defect on nodes in virtual time; sizes and faults "
                             "are those of its shortest counterexample")
    parser.add_argument("--trace", metavar="FOLDER",
                        help="write the rows that fire, one file for each rank; rows of other "
                             "systems than the hand-over go to a folder for each system")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", metavar="FILE", help="write the numbers; - for standard output")


def _configure_optimistic(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--optimistic", type=_count, metavar="N",
                        help="run requests before their bootstrap, and again at most N times")
    parser.add_argument("--release-at-once", action="store_true",
                        help="with --optimistic, release the KV of a pass that ends before its "
                             "bootstrap, as SGLang #26780 does, and run the pass again; otherwise "
                             "it is kept until another request needs its place")
    parser.add_argument("--force-retry", type=_rate, default=0.0, metavar="P",
                        help="with --optimistic, run this share of the requests again, also if "
                             "that is not necessary (default: 0)")
    parser.add_argument("--forward-ms", type=amount, default=0.0, metavar="MS",
                        help="with --optimistic, the time to compute a chunk (default: 0)")


def run(arguments: argparse.Namespace) -> int:
    """Hand over, verify and report; returns the exit status."""
    if arguments.bug is not None:
        return int(of_laboratory("lab.verbs.race", "--bug").run(arguments))
    _refuse(arguments)
    if arguments.trace is not None:
        Path(arguments.trace).mkdir(parents=True, exist_ok=True)
        _remove_traces(Path(arguments.trace))
    topology, load = Topology(arguments.pp, arguments.tp, arguments.cp), _load(arguments)
    victim = topology.prefill[arguments.seed % len(topology.prefill)]
    doomed = {victim: load.requests // 3} if arguments.kill else {}
    with ended_in_order():
        cluster = HandoffCluster(topology, load, engine=arguments.engine, direct=arguments.direct,
                                 device=arguments.device, waits=WAITS, trace=arguments.trace,
                                 doomed=doomed, drains_at=_drains_at(arguments),
                                 cut_s=arguments.cut, host=arguments.host, keys=_keys(arguments))
        verdict = _verdict(cluster, arguments)
    if cluster.untraced and not verdict.complaints:
        raise UsageError(f"--trace {arguments.trace}: the trace of {', '.join(cluster.untraced)} "
                         f"is not whole, as the lines above say")
    if arguments.json:
        write(json.dumps(verdict.numbers(), indent=2) + "\n", arguments.json)
    if arguments.json != STANDARD_OUTPUT:
        with console() as out:
            verdict.show(out)
    return EXIT_STATUS[Verdict(verdict.verdict)]


def _remove_traces(folder: Path) -> None:
    """Remove those of an earlier drill into this folder."""
    for earlier in files_of_a_run(folder):
        if earlier.suffix == ".jsonl" and _is_trace(earlier):
            remove(earlier)


def _is_trace(path: Path) -> bool:
    """Whether a process of an earlier drill has written the file."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(TRACED)) == TRACED


def _drains_at(arguments: argparse.Namespace) -> int | None:
    return arguments.requests // 2 if arguments.drain else None


def _load(arguments: argparse.Namespace) -> Load:
    tokens = arguments.page_tokens
    parts = lcm(*tokens) // gcd(*tokens)  # the pools of both ends have whole pages
    return Load(
        seed=arguments.seed, requests=arguments.requests, layers=arguments.layers,
        page_bytes=arguments.page_bytes, request_pages_max=arguments.pages,
        pool_pages=-(-2 * arguments.pages * arguments.in_flight // parts) * parts,
        page_tokens=tokens, abort_rate=arguments.abort_rate,
        abort_within_s=0.02, in_flight=arguments.in_flight, retries=arguments.optimistic,
        release_at_once=arguments.release_at_once, force_retry=arguments.force_retry,
        forward_s=arguments.forward_ms / 1e3, publish_s=arguments.publish_ms / 1e3,
        faults=arguments.inject,
    )


def _refuse(arguments: argparse.Namespace) -> None:
    """Raise UsageError for a file, an address or an engine that cannot be used."""
    check_targets([arguments.json])
    check_folder(arguments.trace)
    if is_wildcard(arguments.host) or address_of(arguments.host) is None:
        raise UsageError(f"--host {arguments.host}: want an address of this host that the ranks "
                         f"can call, such as 127.0.0.1 or ::1")
    try:
        require(arguments.engine)
        _refuse_page_tokens(arguments)
        if arguments.direct:
            require_page_fence(arguments.engine)
        if device_of(arguments.device, arguments.seed) is None:
            refuse_host_pools(arguments.engine, "give --device cuda, or --device interpreter "
                              "without a GPU")
    except (EngineError, ImportError, RuntimeError) as error:
        raise UsageError(_why_not(arguments, error)) from error
    if arguments.optimistic is None and arguments.force_retry:
        raise UsageError("--force-retry runs optimistic requests again: give --optimistic N too")
    if arguments.drain:
        _refuse_drain(arguments)
    if arguments.release_at_once:
        _refuse_release(arguments)
    if arguments.direct and arguments.device != "cpu":
        raise UsageError("--direct writes into pools in host memory: leave out --device")
    try:
        Settings(faults=arguments.inject)
    except SettingsError as error:
        raise UsageError(f"--inject {str(error).removeprefix('faults=')}") from None


def _refuse_drain(arguments: argparse.Namespace) -> None:
    ranks = len(Topology(arguments.pp, arguments.tp, arguments.cp).prefill)
    if ranks > 1 or arguments.kill or arguments.optimistic is not None:
        raise UsageError("--drain replaces a prefill server of one rank: leave out --pp, --tp, "
                         "--cp, --kill and --optimistic")
    if arguments.requests < 2:
        raise UsageError("--drain: want 2 requests or more, one after the drain")


def _refuse_release(arguments: argparse.Namespace) -> None:
    if arguments.optimistic is None:
        raise UsageError("--release-at-once is about optimistic requests: give --optimistic N too")
    if arguments.pp * arguments.tp * arguments.cp > 1:
        raise UsageError("--release-at-once: the tables of a group of prefill ranks keep the KV of "
                         "a pass: leave out --pp, --tp and --cp")


def _keys(arguments: argparse.Namespace) -> Keys | None:
    """Beyond this host always new ones: every process of the drill is a child of this one."""
    return of_secret(new_secret()) if arguments.keys or not is_loopback(arguments.host) else None


def _refuse_page_tokens(arguments: argparse.Namespace) -> None:
    """Raise UsageError for page sizes that do not go with other options."""
    (prefill, decode), part = arguments.page_tokens, gcd(*arguments.page_tokens)
    if arguments.page_bytes % part:
        raise UsageError(f"--page-bytes {arguments.page_bytes}: want a multiple of {part}, the "
                         f"tokens of a part of pages of {prefill} and of {decode} tokens")
    if arguments.direct and decode != part:
        raise UsageError(f"--direct --page-tokens {prefill}:{decode}: direct writes do not convert "
                         f"page sizes at decode: want one there that divides that of prefill")


def _why_not(arguments: argparse.Namespace, error: Exception) -> str:
    """Why the engine or the device cannot be used."""
    if isinstance(error, EngineError):
        return str(error)
    remedy = ("install pdproto[kernels], or leave it out" if isinstance(error, ImportError)
              else "use --device interpreter, which needs no GPU, or leave it out")
    return f"--device {arguments.device}: {error}: {remedy}"


def _verdict(cluster: HandoffCluster, arguments: argparse.Namespace) -> HandoffVerdict:
    """Run the drill. Raises UsageError where it cannot end."""
    with Reporter(quiet=arguments.quiet) as reporter:
        try:
            return run_drill(cluster, arguments.timeout, lambda done, seconds: reporter.line(
                f"{done:,} of {arguments.requests:,} hand-overs", seconds))
        except NothingKilledError as error:
            raise UsageError(f"--kill: {error}: lower --abort-rate") from error
        except (ChildLostError, TimeoutError) as error:
            raise UsageError(str(error)) from error


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"want a share from 0 to 1, not {text[:40]!r}")
    return value


def _count(text: str) -> int:
    return 0 if text == "0" else whole_number(text)


def _page_tokens(text: str) -> tuple[int, int]:
    prefill, colon, decode = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"want two numbers such as 16:64, not {text[:40]!r}")
    return whole_number(prefill), whole_number(decode)


def _page_bytes(text: str) -> int:
    value = whole_number(text)
    if value % 8:
        raise argparse.ArgumentTypeError(f"want a multiple of 8, not {value}")
    return value
