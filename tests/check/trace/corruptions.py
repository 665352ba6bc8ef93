"""Real traces, each falsified in one way, with the answer that it must get, and why.

The traces are golden (tests/check/trace/golden): six hand-overs of two prefill ranks. By their
numbers: 0 was aborted by decode, 3 and 4 by prefill, and 1, 2 and 5 have succeeded. Prefill has
written to no memory of 0, 3 and 4.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from tests.check.trace.falsified import DECODE, FIRST, SECOND, Line, Run

REJECTED, INCOMPLETE, CONFORMS = "REJECTED", "INCOMPLETE", "CONFORMS"
LEASED: Final = "S1_writes_stay_in_own_memory"


@dataclass(frozen=True)
class Corruption:
    """What is done to the run, the answer, and a part of its reason."""

    answer: str
    because: str
    do: Callable[[Run], object]


def _after(node: str, life: int, what: str, line: Callable[[Run], Line], nth: int = 0
           ) -> Callable[[Run], None]:
    """Insert a line behind another."""
    return lambda run: run.insert(node, run.at(node, life, what, nth) + 1, line(run))


def _before(node: str, life: int, what: str, line: Callable[[Run], Line], nth: int = 0
            ) -> Callable[[Run], None]:
    return lambda run: run.insert(node, run.at(node, life, what, nth), line(run))


def _moved(node: str, life: int, what: str, to: str, *, behind: bool = True
           ) -> Callable[[Run], None]:
    """Move a line behind, or before, another one of its endpoint."""
    def move(run: Run) -> None:
        line = run.drop(node, life, what)
        run.insert(node, run.at(node, life, to) + behind, line)
    return move


def _changed(at: str, life: int, what: str, nth: int = 0, /, **fields: Any
             ) -> Callable[[Run], None]:
    return lambda run: run.line(at, life, what, nth).update(fields)


def _given(node: str, life: int, what: str, name: str, element: Callable[[Run], Any]
           ) -> Callable[[Run], None]:
    def change(run: Run) -> None:
        run.line(node, life, what)["with"][name] = element(run)
    return change


def _swapped_lives(run: Run) -> None:
    """All lines of one life at decode as if they were of another, and the other way round."""
    one, two = run.life(0), run.life(1)

    def swapped(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: swapped(of) for key, of in value.items()}
        if isinstance(value, list):
            return two if value == one else one if value == two else [swapped(of) for of in value]
        return value
    run.files[DECODE] = [swapped(line) for line in run.files[DECODE]]


def _other_run(run: Run) -> None:
    """The file of decode from a run with another incarnation."""
    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: moved(of) for key, of in value.items()}
        if isinstance(value, list):
            whole = len(value) == 3 and all(isinstance(part, int) for part in value)
            return [value[0], value[1] + 1, value[2]] if whole else [moved(of) for of in value]
        return value
    run.files[DECODE] = [moved(line) for line in run.files[DECODE]]


def _copied_life(run: Run) -> None:
    """All lines of one endpoint once more, as another endpoint of the same life."""
    end = run.end(DECODE, 1)
    lines = [{**line, "end": 99} for line in run.files[DECODE] if line["end"] == end]
    run.files[DECODE] += deepcopy(lines)


def _without_life(node: str, life: int) -> Callable[[Run], None]:
    def drop(run: Run) -> None:
        end = run.end(node, life)
        run.files[node] = [line for line in run.files[node] if line["end"] != end]
    return drop


def _dropped(node: str, life: int, what: str) -> Callable[[Run], object]:
    return lambda run: run.drop(node, life, what)


def _doubled(node: str, life: int, what: str) -> Callable[[Run], None]:
    return lambda run: run.insert(node, run.at(node, life, what) + 1,
                                  deepcopy(run.line(node, life, what)))


def _cut(node: str, kept: float) -> Callable[[Run], None]:
    """Leave out the last lines, as of a process that was killed between two lines."""
    def cut(run: Run) -> None:
        run.files[node] = run.files[node][:int(kept * len(run.files[node]))]
    return cut


def _unnumbered(do: Callable[[Run], object]) -> Callable[[Run], None]:
    """Do not number the lines anew."""
    def keep(run: Run) -> None:
        do(run)
        run.numbers = False
    return keep


def _skipped(run: Run) -> None:
    """A source reports success although the engine has refused its last chunk."""
    run.line(FIRST, 1, "write", 2)["device"][0][2] = "refused"


FORGED_BY_DEVICES: Final[Mapping[str, Corruption]] = {
    "a stray write after the lease of an aborted life": Corruption(
        REJECTED, LEASED, _after(DECODE, 0, "end_lease", lambda run: run.content(0))),
    "a stray write of the other source": Corruption(
        REJECTED, LEASED, _after(DECODE, 0, "end_lease", lambda run: run.content(0, SECOND))),
    "a stray write into a life that prefill failed": Corruption(
        REJECTED, LEASED, _after(DECODE, 3, "end_lease", lambda run: run.content(3))),
    "a stray write at the end of the trace": Corruption(
        REJECTED, LEASED,
        lambda run: run.insert(DECODE, len(run.files[DECODE]), run.content(4))),
    "a write lands after its source is drained": Corruption(
        REJECTED, "land cannot have fired",
        _after(DECODE, 0, "note_drained", lambda run: run.content(0))),
    "a write lands in a failed life before it is drained": Corruption(
        REJECTED, "land cannot have fired",
        _after(DECODE, 0, "abort_receive", lambda run: run.content(0))),
    "a write lands in a life that is only published": Corruption(
        REJECTED, "land cannot have fired",
        _after(DECODE, 0, "publish_memory", lambda run: run.content(0))),
    "a write lands before its address is published": Corruption(
        REJECTED, "", _moved(DECODE, 1, "content", "publish_memory", behind=False)),
    "a write lands before there is memory": Corruption(
        REJECTED, LEASED, _moved(DECODE, 1, "content", "memory", behind=False)),
    "a write lands after the commit": Corruption(
        REJECTED, LEASED, _after(DECODE, 1, "commit", lambda run: run.content(1))),
    "a write lands at decode twice": Corruption(
        REJECTED, "land cannot have fired",
        _after(DECODE, 1, "content", lambda run: run.content(1, SECOND))),
    "a write lands once more after its source is done": Corruption(
        REJECTED, "land cannot have fired",
        _before(DECODE, 1, "commit", lambda run: run.content(1))),
    "the bytes of one source are those of the other": Corruption(
        REJECTED, "commit cannot fire", lambda run: run.line(DECODE, 1, "content")["device"][0][
            1].__setitem__(3, FIRST)),
    "bytes that have never arrived": Corruption(
        REJECTED, "commit cannot fire", lambda run: run.drop(DECODE, 1, "content")),
    "bytes disappear": Corruption(
        REJECTED, "no device may write", lambda run: run.line(DECODE, 1, "content")["device"][
            0].__setitem__(2, "false")),
    "a chunk that the sink does not count": Corruption(
        REJECTED, "counts", lambda run: run.line(DECODE, 1, "content")["device"][0][
            1].__setitem__(4, 7)),
    "bytes in a buffer that the sink does not count": Corruption(
        REJECTED, "counts", lambda run: run.line(DECODE, 1, "content")["device"][0][
            1].__setitem__(2, 3)),
    "a write lands at prefill before it is posted": Corruption(
        REJECTED, "land cannot fire", _moved(FIRST, 1, "write", "post", behind=False)),
    "a write lands at prefill twice": Corruption(
        REJECTED, "land cannot fire", _doubled(FIRST, 1, "write")),
    "a write of an aborted life lands at prefill": Corruption(
        REJECTED, "land cannot fire",
        _after(FIRST, 0, "stop", lambda run: run.written(FIRST, 0, 0, "landed"))),
    "a chunk lands that was never handed over": Corruption(
        REJECTED, "counts", _after(FIRST, 1, "post",
                                   lambda run: run.written(FIRST, 1, 5, "landed"))),
    "an engine refuses a write that has landed": Corruption(
        REJECTED, "refuse cannot fire",
        _after(FIRST, 1, "write", lambda run: run.written(FIRST, 1, 0, "refused"))),
    "an engine refuses a write, and nobody fenced it": Corruption(REJECTED, "", _skipped),
    "a device posts a write": Corruption(
        REJECTED, "no device may write",
        _before(FIRST, 1, "post", lambda run: run.written(FIRST, 1, 0, "posted"))),
    "a device changes the state": Corruption(
        REJECTED, "no device may write",
        _before(FIRST, 1, "succeed", lambda run: run.device(
            FIRST, 1, ("sending", [], "success")))),
    "a fence that nobody asked for": Corruption(
        REJECTED, "finish_fence cannot fire", _after(DECODE, 0, "abort_receive", lambda run:
                                                     run.device(DECODE, 0, ("claim", [FIRST],
                                                                            "fenced")))),
    "memory is granted twice": Corruption(
        REJECTED, "grant cannot fire", _doubled(DECODE, 1, "memory")),
    "memory is granted before the life begins": Corruption(
        REJECTED, "grant cannot fire", _moved(DECODE, 1, "memory", "begin_receive", behind=False)),
    "memory is granted after the failure": Corruption(
        REJECTED, "", _moved(DECODE, 0, "memory", "abort_receive")),
    "memory without a page": Corruption(
        REJECTED, "no row of a device writes these values",
        lambda run: run.line(DECODE, 1, "memory")["device"].pop(2)),
    "memory without the answer": Corruption(
        REJECTED, "no row of a device writes these values",
        lambda run: run.line(DECODE, 1, "memory")["device"].pop(0)),
    "memory of another life": Corruption(
        REJECTED, "belongs to", lambda run: run.line(DECODE, 1, "memory")["device"][0][
            1].__setitem__(1, run.life(2))),
}

FORGED_HEARINGS: Final[Mapping[str, Corruption]] = {
    "a source is heard gone, and goes on": Corruption(
        INCOMPLETE, "goes on", _after(DECODE, 1, "publish_memory", lambda run: run.heard(
            DECODE, 1, "gone", FIRST))),
    "a source is heard gone before it has the life": Corruption(
        INCOMPLETE, "goes on", _after(DECODE, 1, "begin_receive", lambda run: run.heard(
            DECODE, 1, "gone", FIRST))),
    "a source is heard gone, and answers the abort": Corruption(
        INCOMPLETE, "goes on", _before(DECODE, 0, "abort_receive", lambda run: run.heard(
            DECODE, 0, "gone", SECOND))),
    "a source is heard gone after it has done its part": Corruption(
        INCOMPLETE, "prefill-0-0-0 has died: its last lines",
        _before(DECODE, 1, "finish", lambda run: run.heard(DECODE, 1, "gone", FIRST))),
    "a source is heard gone at the end": Corruption(
        INCOMPLETE, "prefill-1-0-0 has died: its last lines", lambda run: run.insert(
            DECODE, len(run.files[DECODE]), run.heard(DECODE, 5, "gone", SECOND))),
    "a sink is heard over, and commits": Corruption(
        INCOMPLETE, "goes on", _after(FIRST, 1, "post", lambda run: run.heard(
            FIRST, 1, "sink_over", DECODE))),
    "a sink is heard over before it publishes": Corruption(
        INCOMPLETE, "goes on", _after(FIRST, 1, "meet", lambda run: run.heard(
            FIRST, 1, "sink_over", DECODE))),
    "a sink is heard over, and takes part in other lives": Corruption(
        INCOMPLETE, "goes on", _after(FIRST, 3, "refuse_meeting", lambda run: run.heard(
            FIRST, 3, "sink_over", DECODE))),
    "a source is lost that is alive": Corruption(
        REJECTED, "lose_source cannot fire here", _after(DECODE, 1, "publish_memory", lambda run: {
            **run.line(DECODE, 1, "publish_memory"), "row": "lose_source", "on": "timer heartbeat",
            "with": {"d": DECODE, "h": run.life(1), "p": FIRST}, "state": "failed"})),
    "a message that no row reads": Corruption(
        REJECTED, "no row of sink reads", _after(DECODE, 1, "publish_memory", lambda run: run.heard(
            DECODE, 1, "publish", FIRST))),
    "a stranger is heard gone": Corruption(
        REJECTED, "counts", _after(DECODE, 1, "publish_memory", lambda run: run.heard(
            DECODE, 1, "gone", "prefill-7-0-0"))),
    "a failure that nobody has told": Corruption(
        REJECTED, "no line sends failed", _after(DECODE, 1, "publish_memory", lambda run: {
            **run.line(DECODE, 3, "hear_failure"), "end": run.end(DECODE, 1),
            "with": {"d": DECODE, "h": run.life(1), "p": FIRST}})),
    "an answer that nobody has given": Corruption(
        REJECTED, "note_drained cannot fire", _doubled(DECODE, 3, "note_drained")),
}

ORDER: Final[Mapping[str, Corruption]] = {
    "a source is done before its last chunk has landed": Corruption(
        REJECTED, "succeed cannot fire", _moved(FIRST, 1, "succeed", "write", behind=False)),
    "a sink commits before the last part": Corruption(
        REJECTED, "commit cannot fire", _moved(DECODE, 1, "commit", "take_part", behind=False)),
    "a lease ends before the sources are drained": Corruption(
        REJECTED, "end_lease cannot fire", _moved(DECODE, 0, "end_lease", "abort_receive")),
    "a source drains before it is asked": Corruption(
        REJECTED, "say_drained cannot fire", _moved(FIRST, 0, "say_drained", "stop", behind=False)),
    "a source learns an address before it meets the sink": Corruption(
        REJECTED, "", _moved(FIRST, 1, "learn", "meet", behind=False)),
    "a chunk is posted before it is handed over": Corruption(
        REJECTED, "", _moved(FIRST, 1, "post", "send", behind=False)),
    "an address is published before there is memory": Corruption(
        REJECTED, "publish_memory cannot fire",
        _moved(DECODE, 1, "publish_memory", "memory", behind=False)),
    "pages are used again before their last write has landed": Corruption(
        REJECTED, "release_kv cannot fire",
        _moved(FIRST, 1, "release_kv", "write", behind=False)),
    "an answer comes before the question": Corruption(
        REJECTED, "", _moved(DECODE, 0, "note_drained", "abort_receive", behind=False)),
    "the first line of an endpoint comes last": Corruption(
        REJECTED, "begins", lambda run: run.insert(
            DECODE, len(run.files[DECODE]), run.files[DECODE].pop(0))),
    "all lines in the opposite order": Corruption(
        REJECTED, "begins", lambda run: run.files[FIRST].reverse()),
    "two lines change places, with their numbers": Corruption(
        REJECTED, "of the process follows", _unnumbered(_moved(
            FIRST, 1, "succeed", "write", behind=False))),
    "a grant is told somewhat later": Corruption(
        CONFORMS, "lines of two lives are in no order", lambda run: run.insert(
            DECODE, run.at(DECODE, 1, "memory"), run.drop(DECODE, 2, "memory"))),
    "lines of two lives change places": Corruption(
        CONFORMS, "neither life reads what the other does", lambda run: run.insert(
            DECODE, run.at(DECODE, 2, "commit") + 1, run.drop(DECODE, 1, "finish"))),
}

DROPPED: Final[Mapping[str, Corruption]] = {
    **{f"no {row} at {node} of life {life}": Corruption(REJECTED, "", _dropped(node, life, row))
       for node, life, row in (
           (DECODE, 1, "begin_receive"), (DECODE, 1, "publish_memory"), (DECODE, 1, "take_part"),
           (DECODE, 0, "abort_receive"), (DECODE, 0, "note_drained"), (DECODE, 3, "hear_failure"),
           (FIRST, 1, "learn"), (FIRST, 1, "send"), (FIRST, 1, "post"), (FIRST, 1, "write"),
           (FIRST, 1, "succeed"), (FIRST, 0, "stop"), (FIRST, 0, "say_drained"),
           (DECODE, 1, "memory"))},
    "a gap in the numbers": Corruption(
        REJECTED, "of the process follows",
        _unnumbered(lambda run: run.drop(FIRST, 1, "release_kv"))),
    "no end of the lease": Corruption(
        INCOMPLETE, "end_lease could still fire", lambda run: run.drop(DECODE, 0, "end_lease")),
    "no release of the pages": Corruption(
        INCOMPLETE, "release_kv could still fire", lambda run: run.drop(FIRST, 1, "release_kv")),
    "no commit, and nothing after it": Corruption(
        INCOMPLETE, "commit could still fire",
        lambda run: [run.drop(DECODE, 1, row) for row in ("finish", "commit")]),
    "no finish": Corruption(
        CONFORMS, "a call of the application may come later",
        lambda run: run.drop(DECODE, 1, "finish")),
    "no meeting": Corruption(
        CONFORMS, "an introduction may be lost, and the address comes later",
        lambda run: run.drop(FIRST, 1, "meet")),
    "no answer to a stale message": Corruption(
        CONFORMS, "a message may be lost", lambda run: run.drop(
            DECODE, 3, "ignore_failed_success_failed")),
    "a life without its sink": Corruption(REJECTED, "no line sends", _without_life(DECODE, 1)),
    "a life without a source": Corruption(REJECTED, "no line sends", _without_life(FIRST, 1)),
    "decode stops in the middle": Corruption(REJECTED, "no line sends", _cut(DECODE, 0.2)),
    "prefill stops in the middle": Corruption(REJECTED, "no line sends", _cut(FIRST, 0.5)),
    "decode stops near the end": Corruption(
        INCOMPLETE, "commit could still fire", _cut(DECODE, 60.5 / 66)),
    "no trace of decode": Corruption(
        INCOMPLETE, "decode-0 did what others tell", lambda run: run.files.pop(DECODE)),
    "no trace of one source": Corruption(
        INCOMPLETE, "prefill-1-0-0 did what others tell", lambda run: run.files.pop(SECOND)),
    "an empty trace of one source": Corruption(
        INCOMPLETE, "has no lines", lambda run: run.files.update({SECOND: []})),
}

FIELDS: Final[Mapping[str, Corruption]] = {
    "a row of the same trigger": Corruption(
        REJECTED, "note_drained answers", _changed(DECODE, 0, "note_stopping", row="note_drained")),
    "an unknown row": Corruption(
        REJECTED, "has no row", _changed(DECODE, 1, "commit", row="comit")),
    "a state that the row does not lead to": Corruption(
        REJECTED, "leads to", _changed(FIRST, 1, "meet", state="failed")),
    "another trigger": Corruption(
        REJECTED, "answers", _changed(FIRST, 1, "meet", on="publish(d, h, p)")),
    "the end of another life": Corruption(
        REJECTED, "", _changed(DECODE, 1, "commit", end=1)),
    "a machine of the other side": Corruption(
        REJECTED, "is a sink", _changed(DECODE, 1, "commit", machine="source")),
    "a line of another node": Corruption(
        REJECTED, "is of node", _changed(DECODE, 1, "commit", node=FIRST)),
    "a part of the other source": Corruption(
        REJECTED, "", _given(DECODE, 1, "take_part", "p", lambda _: FIRST)),
    "a part of the same source twice": Corruption(
        REJECTED, "", _doubled(DECODE, 1, "take_part")),
    "a wrong incarnation in one line": Corruption(
        REJECTED, "belongs to", _given(DECODE, 1, "commit", "h", lambda run: [
            1, run.life(1)[1] + 1, 1])),
    "a wrong generation in one line": Corruption(
        REJECTED, "belongs to", _given(FIRST, 1, "learn", "h", lambda run: [
            1, run.life(1)[1], 9])),
    "a source meets another life": Corruption(
        REJECTED, "", _given(FIRST, 1, "meet", "h", lambda run: run.life(2))),
    "a chunk is posted in place of another": Corruption(
        REJECTED, "post cannot fire", _given(FIRST, 1, "post", "c", lambda _: 2)),
    "a write lands in place of another": Corruption(
        REJECTED, "land cannot fire", lambda run: run.line(FIRST, 1, "write")["device"][0][
            1].__setitem__(3, 2)),
    "two lives of decode change their names": Corruption(REJECTED, "", _swapped_lives),
    "decode of another run": Corruption(REJECTED, "no line sends", _other_run),
    "an endpoint that is told twice": Corruption(REJECTED, "already", _copied_life),
    "the trace of decode under another name, too": Corruption(
        REJECTED, "tells of", lambda run: run.files.update(
            {"copy": deepcopy(run.files[DECODE])})),
    "the trace of prefill under another name, too": Corruption(
        REJECTED, "tells of", lambda run: run.files.update(
            {"copy": deepcopy(run.files[FIRST])})),
    "an unknown field": Corruption(
        REJECTED, "is not a line of a trace", _changed(DECODE, 1, "commit", digest="0")),
    "fewer sources than take part": Corruption(
        REJECTED, "no line sends introduce", lambda run: run.files[DECODE][2][
            "begins"].update(Source=[FIRST])),
    "a source more than takes part": Corruption(
        REJECTED, "", lambda run: run.files[DECODE][2]["begins"].update(
            Source=[FIRST, SECOND, "prefill-2-0-0"])),
    "fewer chunks than are handed over": Corruption(
        REJECTED, "", lambda run: next(
            line for line in run.files[FIRST] if line.get("elements", {}).get("Chunk") == 3)[
                "elements"].update(Chunk=1)),
}

CORRUPTIONS: Final = {
    f"{kind}: {name}": corruption for kind, of in (
        ("device", FORGED_BY_DEVICES), ("hearing", FORGED_HEARINGS), ("order", ORDER),
        ("dropped", DROPPED), ("field", FIELDS)) for name, corruption in of.items()}
