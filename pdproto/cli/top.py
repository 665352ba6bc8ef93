"""Show the present state of nodes: health, queues, leases, fences, rates, and stuck hand-overs.

Name each node by the address of its operator's port. Exit status: 0 after `--once` or Ctrl-C, 1 if
`--once` finds a node that is not ready or does not answer.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from time import sleep
from typing import Any, Final

from rich.console import Group
from rich.live import Live
from rich.table import Table

from pdproto.cli.numbers import positive
from pdproto.cli.options import UsageError, console, whole_number
from pdproto.net.hosts import split
from pdproto.transport.node_status import NodeStatus, look
from pdproto.transport.open_handoffs import OpenHandoff

STUCK_S: Final = 1.0  # a hand-over is listed after so long in one state
QUEUED: Final = ("num_decode_memory_queue_reqs", "num_prefill_bootstrap_queue_reqs")
FENCES: Final = ("engine_pending_fences",)
LEASES: Final = ("num_decode_leases", "num_prefill_writes")
RATES: Final = ("handoffs_succeeded_total", "transfer_failed_reqs_total",
                "bootstrap_failed_reqs_total", "transfer_bytes_total")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto node top`."""
    parser.add_argument("nodes", nargs="+", metavar="HOST:PORT",
                        help="the address of the operator's port of each node")
    parser.add_argument("--every", type=positive, default=1.0, metavar="SECONDS",
                        help="seconds between two refreshes (default: 1)")
    parser.add_argument("--stuck", type=whole_number, default=5, metavar="N",
                        help="list the N hand-overs of each node that have been in their state "
                             "for the longest time (default: 5)")
    parser.add_argument("--once", action="store_true", help="print the state once, and end")


def run(arguments: argparse.Namespace) -> int:
    """Show the state until it is interrupted; returns the exit status."""
    for address in arguments.nodes:
        try:
            split(address)
        except ValueError as error:
            raise UsageError(str(error)) from None
    looks = [look(address, arguments.stuck) for address in arguments.nodes]
    if arguments.once:
        with console() as out:
            out.print(shown(looks, {}))
        return 1 if any(one.problem for one in looks) else 0
    try:
        with Live(shown(looks, {}), auto_refresh=False) as live:
            while True:
                sleep(arguments.every)
                before = {one.address: one for one in looks}
                looks = [look(address, arguments.stuck) for address in arguments.nodes]
                live.update(shown(looks, before), refresh=True)
    except KeyboardInterrupt:
        return 0


def shown(looks: Sequence[NodeStatus], before: Mapping[str, NodeStatus]) -> Group:
    """The table of the nodes, and the table of stuck hand-overs."""
    nodes = Table(title=None)
    for column in ("node", "side", "ready", "open", "queued", "leases", "fences", "done/s",
                   "failed/s", "MB/s"):
        nodes.add_column(column, justify="left" if column in ("node", "side") else "right")
    for one in looks:
        nodes.add_row(*_row(one, before.get(one.address)))
    parts: list[Any] = [nodes]
    parts += [f"{one.address}: {one.problem}" for one in looks if one.problem]
    stuck = Table("node", "room", "state", "for", "waits for", "ends by", title=None)
    for one in looks:
        for cells in _stuck(one):
            stuck.add_row(*cells)
    return Group(*parts, *([stuck] if stuck.row_count else []))


def _row(one: NodeStatus, before: NodeStatus | None) -> tuple[str, ...]:
    if one.told is None:
        return one.address, "", "no", *[""] * 7
    done, *failed, moved = (one.rate(name, before) for name in RATES)
    known = [rate for rate in failed if rate is not None]
    return (one.told.node, one.told.side, "no" if one.problem else "yes", f"{one.told.open:,}",
            f"{one.sum(QUEUED):,.0f}", f"{one.sum(LEASES):,.0f}", f"{one.sum(FENCES):,.0f}",
            _per_second(done), _per_second(sum(known) if known else None),
            _per_second(None if moved is None else moved / 1e6))


def _per_second(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.1f}"


def _stuck(one: NodeStatus) -> Iterator[tuple[str, ...]]:
    if one.told is None:
        return
    for handoff in one.told.handoffs:
        if handoff.for_s >= STUCK_S:
            yield (one.told.node, str(handoff.room), handoff.state, f"{handoff.for_s:,.0f} s",
                   "; ".join(f"{wait.party}: {wait.event}" + (f" ({wait.trouble})" if wait.trouble
                                                           else "")
                             for wait in handoff.waits_for), _ends(handoff))


def _ends(handoff: OpenHandoff) -> str:
    """The running clocks that would end the hand-over, as text."""
    ending = [clock for clock in handoff.clocks if "fails" in clock.leads_to]
    return ", ".join(f"{clock.name} in {clock.in_s:,.0f} s" for clock in ending) or "no clock"
