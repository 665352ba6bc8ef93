"""Defects of the transfer that show when a process restarts, as edits of its tables."""

from dataclasses import replace
from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.transfer_sizes import RESTARTING, SINK_CRASHING, TWO_LIVES, WRITE
from pdproto.spec.handoff.ends import (
    Receiving,
    Sending,
    abort,
    d,
    drained,
    engine,
    gone,
    h,
    introduce,
    k,
    p,
    publish,
    receiving,
    sending,
)
from pdproto.spec.handoff.transfer import NO_TIMEOUTS, RESTARTED, SYSTEM
from pdproto.spec.language import AddRow, DropClause, Ignore, ReplaceRow, Row, edited

RESTARTS: Final = (
    Bug("B57-transfer", "sglang #36029, #31144",
        "After a restart of prefill, decode went on waiting for answers of the old process.",
        edited(NO_TIMEOUTS, "B57-transfer",
               ReplaceRow("disown_meeting", Ignore(
                   introduce(d, h, p), at=Sending.GONE,
                   why="the successor does not know this life")),
               ReplaceRow("disown_address", Ignore(
                   publish(d, h, p), at=Sending.GONE, why="the successor does not know this life")),
               ReplaceRow("disown_abort", Ignore(
                   abort(d, h, p), at=Sending.GONE, why="the successor does not know this life"))),
        RESTARTING, "L7_a_sink_notices_a_crash",
        note="the successor came before a missed heartbeat, and sent nothing"),
    Bug("R19-restart", "sglang, from the code of 0.5.23",
        "A restarted prefill rank answered for an unknown room that no write was under way.",
        edited(SYSTEM, "R19-restart", ReplaceRow("disown_abort", Row(
            "disown_abort", on=abort(d, h, p), at=Sending.GONE, send=[drained(p, h, d)]))),
        RESTARTING, WRITE, note="the adapter of the dead process was still writing"),
    Bug("B29-transfer", "the other side of sglang #36029",
        "A write with the key of a dead decode process landed in memory of the new one.",
        edited(SYSTEM, "B29-transfer", DropClause("land", receiving(d, h) != Receiving.GONE)),
        SINK_CRASHING, WRITE, note="the address names no incarnation"),
    Bug("B30-transfer", "sglang #13054, #25287, #35823",
        "One crash, and every later request to that prefill server failed until decode restarted.",
        edited(RESTARTED, "B30-transfer", AddRow(engine, Row(
            "blacklist", choose=(p, h, k, d),
            when=[h.differs(k), gone(p, k, d), sending(p, h) != Sending.GONE],
            send=[gone(p, h, d)]))),
        replace(TWO_LIVES, faults=("restart",), symmetry=True),
        "L6_a_life_after_a_restart_succeeds",
        note="the list of dead peers names an address, and no incarnation"),
)
