"""Traces of a mutual exclusion in which each line conforms: is there an order without a violation?

One member begins with the token. The tables take it from the rigid relation `first`, which each
process reads from its own settings: with wrong settings, two of them begin with a token.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pdproto.check.load import LoadError
from pdproto.check.result import Verdict
from pdproto.check.trace import search
from pdproto.check.trace.verdict import JUDGED
from pdproto.check.trace.verify import to_json, verify
from pdproto.ground.structure import table_digest
from pdproto.runtime.store import Shared
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.language import (
    TRUE,
    Always,
    Call,
    Configuration,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Refines,
    Reject,
    Rigid,
    Row,
    Sometimes,
    Sort,
    System,
    Table,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.properties import PROPERTY_KINDS


class Member(Sort):
    """A process that may be in the critical section."""


class Place(Sort, ordered=True):
    """A place in a channel."""


m, n, o = Member("m"), Member("n"), Member("o")
first = Rigid("first", m, given=lambda _: {(0,)})
member = Machine("member", m)
started = member.relation("started")
holds = member.relation("holds")
crit = member.relation("crit")
token = Message("token", m, n, sender=member, receiver=member.at(n), fifo=Place)
ping = Message("ping", m, n, sender=member, receiver=member.at(n))
TABLE = Table(member, rows=(
    Row("start", when=[first(m), ~started(m)], do=[started(m).to(True), holds(m).to(True)]),
    Row("enter", when=[holds(m), ~crit(m)], do=crit(m).to(True)),
    Row("leave", when=crit(m), do=crit(m).to(False)),
    Row("pass", on=Call("pass", n), when=[holds(m), ~crit(m), m.differs(n)],
        do=holds(m).to(False), send=token(m, n)),
    Row("take", on=token(n, m), do=holds(m).to(True)),
    Row("ping", on=Call("ping", n), when=m.differs(n), send=ping(m, n)),
    Row("hear", on=ping(n, m)),
    Row("audit", on=Call("audit")),
))
SYSTEM = System("token", "Mutual exclusion by a token.", tables=(TABLE,), properties=(
    Always("mutex", implies(crit(m) & crit(n), m.same(n))),
    Sometimes("enters", crit(m)),
    OnRow("quiet", "audit", forall(o, ~crit(o))),
), final=TRUE, configurations={"default": Configuration({Member: 2, Place: 2})})

IN = "start enter"
# of each member: its lines. Then the answer and its reason.
CORRUPTIONS: Mapping[str, tuple[Mapping[str, str], str, str]] = {
    "two tokens, both stay inside": (
        {"a": IN, "b": IN}, "rejected", "mutex is violated after it"),
    "two tokens, one leaves": (  # it can have left before the other one entered
        {"a": f"{IN} leave", "b": IN}, "conforms", ""),
    "two tokens, both leave": (
        {"a": f"{IN} leave", "b": f"{IN} leave"}, "conforms", ""),
    "both hear each other from inside": (
        {"a": f"{IN} ping:b hear:b leave", "b": f"{IN} ping:a hear:a leave"},
        "rejected", "mutex is violated after it"),
    "only one hears the other": (
        {"a": f"{IN} hear:b leave", "b": f"{IN} ping:a leave"}, "conforms", ""),
    "one hears the other after it has left": (
        {"a": f"{IN} ping:b leave hear:b", "b": f"{IN} ping:a leave hear:a"}, "conforms", ""),
    "one pings after it has left": (
        {"a": f"{IN} ping:b hear:b leave", "b": f"{IN} leave ping:a hear:a"}, "conforms", ""),
    "the token is passed": (
        {"a": f"{IN} leave pass:b", "b": "take:a enter leave"}, "conforms", ""),
    "the first token is passed, and a second one is used": (
        {"a": f"{IN} leave pass:b enter", "b": "take:a enter"}, "rejected",
        "enter cannot fire here"),
    "the second token is passed back into the critical section": (
        {"a": f"{IN} take:b", "b": "start pass:a enter"}, "rejected", "enter cannot fire here"),
    "the token comes while the holder of another one stays inside": (
        {"a": "start pass:b", "b": "take:a enter", "c": "start enter"}, "rejected",
        "mutex is violated after it"),
    "a chain of messages from inside to inside": (
        {"a": f"{IN} ping:c", "b": "start hear:c enter", "c": "hear:a ping:b"}, "rejected",
        "mutex is violated after it"),
    "the same, and the first one leaves": (
        {"a": f"{IN} ping:c leave", "b": "start hear:c enter", "c": "hear:a ping:b"},
        "conforms", ""),
    "the same, and it leaves after it has heard": (
        {"a": f"{IN} ping:c hear:b leave", "b": "start hear:c enter ping:a leave",
         "c": "hear:a ping:b"}, "rejected", "mutex is violated after it"),
    "an audit at any time": (
        {"a": IN, "b": "audit"}, "conforms", ""),
    "an audit after a message from inside": (
        {"a": f"{IN} ping:b", "b": "hear:a audit"}, "rejected",
        "quiet is violated where audit fires"),
    "an audit after a message from before": (
        {"a": "start ping:b enter", "b": "hear:a audit"}, "conforms", ""),
    "an audit after a token from one who has heard from inside": (
        {"a": "start hear:c pass:b", "b": "take:a audit", "c": f"{IN} ping:a"}, "rejected",
        "quiet is violated where audit fires"),
    "an audit between two times inside": (
        {"a": f"{IN} ping:b leave hear:b enter", "b": "hear:a audit ping:a"}, "conforms", ""),
    "an audit by the one inside": (
        {"a": f"{IN} audit leave", "b": "start"}, "rejected",
        "quiet is violated where audit fires"),
}
NAMES = ("a", "b", "c")
NEVER_JUDGED = ["enters: one run does not show that a state is never reached",
                "deadlock: it is about the tables: pdproto check judges it"]


def told(name: str, script: str, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The lines of a member: its rows, each with the other member that it names."""
    about = {"node": name, "machine": "member", "end": 1}
    yield {"n": 1, **about, "begins": {"Member": list(names)}, "own": {"m": name}}
    triggers = {row.name: None if row.on is None else str(row.on) for row in TABLE.rows}
    for number, word in enumerate(script.split(), start=2):
        row, _, other = word.partition(":")
        yield {"n": number, **about, "row": row, "on": triggers[row],
               "with": {"n": other} if other else {}}


def files(folder: Path, scripts: Mapping[str, str]) -> list[Path]:
    paths = []
    for name, script in scripts.items():
        paths.append(folder / f"{name}.jsonl")
        paths[-1].write_text("".join(
            json.dumps(line, separators=(",", ":")) + "\n"
            for line in told(name, script, tuple(scripts))))
    return paths


@pytest.mark.parametrize("case", CORRUPTIONS)
def test_a_run_is_rejected_if_every_order_violates_a_property(case: str, tmp_path: Path) -> None:
    scripts, answer, why = CORRUPTIONS[case]
    paths = files(tmp_path, scripts)
    for given in (paths, paths[::-1]):  # in whatever order the replay takes the files
        result = to_json(verify(SYSTEM, given))
        assert result["verdict"] == answer
        rejection = result["rejection"]
        assert ("" if rejection is None else rejection["why"]) == why
        if "violated" in why:
            assert rejection["claim"] == why.split(" ")[0]
            text = Path(rejection["file"]).read_text().splitlines()[rejection["line"] - 1]
            assert rejection["text"] == text


def test_a_property_that_no_line_tells_of_is_named(tmp_path: Path) -> None:
    """A fault may have ended what a member does there, between any two lines."""
    world = Machine("world", world=True)
    ends = Row("end", choose=(m,), when=crit(m), do=crit(m).to(False))
    faulty = replace(SYSTEM, faults={"end": (Table(world, rows=(ends,)),)}, like=SYSTEM)
    both = "two tokens, both stay inside"
    paths = files(tmp_path, CORRUPTIONS[both][0])
    told = to_json(verify(faulty, paths))
    assert told["verdict"] == "conforms"
    assert told["not_judged"] == [
        *(f"{name}, where it depends on crit: no line tells each of its values"
          for name in ("mutex", "quiet")), *NEVER_JUDGED]
    assert to_json(verify(SYSTEM, paths))["verdict"] == "rejected"
    middle = to_json(verify(SYSTEM, paths, from_middle=True))
    assert middle["verdict"] == "conforms"
    assert middle["not_judged"] == [
        *(f"{name}: the traces may begin in the middle" for name in ("mutex", "quiet")),
        *NEVER_JUDGED]
    right = files(tmp_path, CORRUPTIONS["the token is passed"][0])
    assert to_json(verify(SYSTEM, right))["not_judged"] == NEVER_JUDGED


class SomeLaterKind(LeadsTo):
    """A kind of property that the language may get."""


def test_each_kind_that_no_line_tells_of_is_named(tmp_path: Path) -> None:
    """Seen red: `Refines`, `LeadsTo` and all later kinds passed without a word."""
    paths = files(tmp_path, CORRUPTIONS["the token is passed"][0])
    inside = Machine("inside")
    somebody = inside.relation("somebody")
    abstract = System("inside", "Nobody is inside.", (Table(inside, rows=(
        Row("never", when=somebody(), do=somebody().to(False)),)),), final=TRUE)
    claims = (LeadsTo("it_ends", crit(m), ~crit(m)), SomeLaterKind("later", crit(m), ~crit(m)),
              Refines("nobody", abstract, somebody().to(exists(m, crit(m)))))
    claimed = replace(SYSTEM, properties=(*SYSTEM.properties, *claims), like=SYSTEM)
    told = verify(claimed, paths)
    assert told.verdict is Verdict.HOLDS
    named = {claim.partition(",")[0] for claim in told.unjudged}
    kinds = {type(one): one.name for one in claimed.properties}
    assert {*kinds} == {*PROPERTY_KINDS, SomeLaterKind}
    assert named == {one.name for one in claimed.properties if not isinstance(one, JUDGED)} | {
        "deadlock"}
    assert told.unjudged["later"] == "no replay judges a SomeLaterKind"


def test_a_line_with_a_row_that_rejects_is_rejected(tmp_path: Path) -> None:
    """Seen red: the line conformed, though no_peer_is_at_fault did not hold."""
    rejects = replace(TABLE, rows=(*(row for row in TABLE.rows if row.name != "hear"),
                                   replace(Reject(ping(n, m), why="a peer"), name="hear")))
    system = replace(SYSTEM, tables=(rejects,), like=SYSTEM)
    told = to_json(verify(system, files(tmp_path, CORRUPTIONS["only one hears the other"][0])))
    assert told["rejection"]["why"] == "hear refuses its trigger: it never fires"


def test_a_trace_of_other_tables_is_refused(tmp_path: Path) -> None:
    run = "a:start a:enter a:leave"
    paths = processes(tmp_path, {"a": True, "b": False}, run)
    edits = replace(TABLE, rows=(*TABLE.rows, Row("more", on=Call("more"))))
    other = replace(SYSTEM, tables=(edits,), like=SYSTEM)
    own, others = table_digest(TABLE), table_digest(edits)
    assert own != others
    with pytest.raises(LoadError, match=f"a.jsonl, line 1: it is of other tables: the digest of "
                                        f"that of member is {own}, and {others} in token"):
        verify(other, paths)
    for path in paths:  # as a tool that writes no digest
        path.write_text(path.read_text().replace(f',"tables":"{own}"', ""))
    assert verify(other, paths).verdict is Verdict.HOLDS


def processes(folder: Path, settings: Mapping[str, bool], run: str) -> list[Path]:
    """The traces of processes with these settings: has it the token? run: calls, `a:enter`."""
    paths = [folder / f"{name}.jsonl" for name in settings]
    with ExitStack() as stack:
        members: dict[str, Shared] = {}
        for (name, has_token), path in zip(settings.items(), paths, strict=True):
            trace = SharedTrace(name, stack.enter_context(path.open("wb")))
            members[name] = shared(
                TABLE, (name,), {Member: tuple(settings)},
                {first: lambda _, given=has_token: given}, trace=trace)
        for word in run.split():
            name, row, *other = word.split(":")
            if row == "take":
                members[name].receive(token, *other, name)
            elif row == "pass":
                members[name].call(row, *other)
            else:
                members[name].fire(row)
    return paths


def test_processes_with_right_settings_conform(tmp_path: Path) -> None:
    run = "a:start a:enter a:leave a:pass:b b:take:a b:enter"
    assert verify(SYSTEM, processes(tmp_path, {"a": True, "b": False}, run)
                  ).verdict is Verdict.HOLDS


def test_processes_with_wrong_settings_are_rejected_by_the_property(tmp_path: Path) -> None:
    run = "a:start b:start a:enter b:enter"
    rejection = verify(SYSTEM, processes(tmp_path, {"a": True, "b": True}, run)).rejection
    assert rejection is not None
    assert rejection.claim == "mutex"
    assert '"row":"enter"' in rejection.text
    assert rejection.trace is not None
    assert rejection.trace.steps[-1].row == "enter"


def test_a_variable_that_a_fault_may_change_is_not_judged(tmp_path: Path) -> None:
    """The first one inside may have crashed before the second one entered: no line tells of it."""
    crash = Table(Machine("world", world=True), rows=(
        Row("crash", choose=m, when=crit(m), do=crit(m).to(False)),))
    system = System("fragile", "Members crash.", tables=(TABLE,), properties=SYSTEM.properties,
                    final=TRUE, faults={"crash": (crash,)}, configurations=SYSTEM.configurations)
    paths = files(tmp_path, {"a": IN, "b": IN})
    assert verify(SYSTEM, paths).verdict is Verdict.VIOLATED
    assert verify(system, paths).verdict is Verdict.HOLDS


def test_a_cut_trace_is_incomplete(tmp_path: Path) -> None:
    """Both stay inside, if the cut line is none of `leave`."""
    paths = files(tmp_path, {"a": f"{IN} leave", "b": IN})
    paths[0].write_text(paths[0].read_text()[:-20])
    assert verify(SYSTEM, paths).verdict is Verdict.UNKNOWN


def test_a_missing_trace_is_incomplete(tmp_path: Path) -> None:
    paths = files(tmp_path, {"a": IN, "b": IN, "c": "ping:a"})
    assert verify(SYSTEM, paths).verdict is Verdict.VIOLATED
    assert verify(SYSTEM, paths[:2]).verdict is Verdict.UNKNOWN


def test_too_many_orders_are_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = files(tmp_path, {"a": f"start {'enter leave ' * 9}enter", "b": IN})
    assert verify(SYSTEM, paths).verdict is Verdict.VIOLATED
    monkeypatch.setattr(search, "CUTS_MAX", 5)
    result = verify(SYSTEM, paths)
    assert result.verdict is Verdict.UNKNOWN
    assert "too many orders" in result.assumes[0]


def inside_together(order: list[str]) -> bool:
    inside = set()
    for word in order:
        name, row, *_ = word.split(":")
        inside |= {name} if row == "enter" else set()
        inside -= {name} if row == "leave" else set()
        if len(inside) > 1 or (row == "audit" and inside):
            return True
    return False


def orders(scripts: Mapping[str, list[str]], sent: frozenset[str] = frozenset()
           ) -> Iterator[list[str]]:
    """Every order of the lines in which each ping is sent before it is heard."""
    if not any(scripts.values()):
        yield []
    for name, script in scripts.items():
        if script:
            row, _, other = script[0].partition(":")
            if row != "hear" or f"{other}:{name}" in sent:
                more = sent | {f"{name}:{other}"} if row == "ping" else sent
                for rest in orders({**scripts, name: script[1:]}, more):
                    yield [f"{name}:{script[0]}", *rest]


@pytest.mark.parametrize("seed", range(60))
def test_the_answer_is_that_of_all_orders_one_by_one(seed: int, tmp_path: Path) -> None:
    """Random short runs, against the list of all orders."""
    random = Random(seed)  # noqa: S311 - no secret
    scripts: dict[str, list[str]] = {}
    for name in NAMES:
        script, inside = ["start"], False
        for _ in range(random.randrange(4)):
            other = random.choice([one for one in NAMES if one != name])
            word = random.choice(["move", "move", f"ping:{other}", f"hear:{other}", "audit"])
            if word == "move":
                word, inside = ("leave", False) if inside else ("enter", True)
            script.append(word)
        scripts[name] = script
    every = list(orders(scripts))
    allowed = any(not inside_together(order) for order in every)
    result = verify(SYSTEM, files(tmp_path, {k: " ".join(v) for k, v in scripts.items()}))
    assert (result.verdict is Verdict.HOLDS) == allowed
    if every and not allowed:
        assert result.rejection is not None
        assert result.rejection.claim in {"mutex", "quiet"}
