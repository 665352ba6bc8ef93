"""No module outside spec/ decides the protocol by the kind of a message or by a variable.

It branches on the kind of a message, as a frame or as a declaration, and reads a variable or asks
for a formula, only where BRANCHES and READS say why. test_spec_is_data.py is about states.
"""

import ast
from collections.abc import Iterator, Mapping
from types import UnionType

import pytest

from pdproto.runtime.versions import Versioned
from pdproto.spec.language import Message
from pdproto.spec.language.formula import Formula
from pdproto.spec.language.symbols import Symbol
from tests.runtime.test_spec_is_data import (
    COMPARES,
    EVENT,
    KEPT,
    SHOWN,
    imported,
    last_name,
    modules,
    place,
)

# Each function that branches on the kind of a message, and why it may.
ROUTES = "which table gets the message; that table accepts, ignores or rejects it"
CARRIES = "which fields of the message the event or the application gets"
SAYS = "how a message that a row has sent is carried to its receiver, or to the application"
WAITS = "a message waits until an earlier one about its life has come; no row sees the order"
UNSAID = "it has no bytes, by a defect: its receiver gets a failure instead, which no row sends"
BRANCHES: Mapping[str, str] = {
    "group/members.py:hear": WAITS,
    "group/pass_rank.py:_apply": CARRIES,
    "group/passes.py:_must_wait": WAITS,
    "group/passes.py:say": SAYS,
    "group/rank.py:_decision": CARRIES,
    "group/rank.py:_follow": CARRIES,
    "group/rank.py:_take": CARRIES,
    # An aborted life asks for nothing.
    "node/prefill/binding.py:_meet": ROUTES,
    "node/prefill/binding_room.py:_hear": ROUTES,
    "node/prefill/binding_rooms.py:hear": ROUTES,
    "node/prefill/sinks.py:_unsaid": UNSAID,
    "node/prefill/ended_rooms.py:_is_refusal": SAYS,
    "node/prefill/keeps.py:_answer": SAYS,
    "node/drain.py:_is_taken": SAYS,
    "node/drain.py:_leave": SAYS,
    "node/rooms.py:want": SAYS,
    "registry/leaving.py:_names": SAYS,
    "registry/lives.py:post": SAYS,
    "registry/registrar.py:_say": SAYS,
    "registry/registry.py:_looked_up": SAYS,
    "registry/registry.py:_record": SAYS,
    "registry/registry.py:_refusal": SAYS,
    "registry/rooms.py:_take": SAYS,
    "registry/rooms.py:enroll": SAYS,
}
# Each function that reads a variable, or asks for a formula of the tables, and why it may. (Those
# that compare what they read with a state are in COMPARES.)
WINDOW = "which chunks and lives the tables of an end name at present"
READS: Mapping[str, str] = {
    "group/pass_entry.py:_is_ready": EVENT,
    "group/pass_entry.py:is_open": KEPT,
    "group/pass_rank.py:decide": KEPT,
    "group/pass_rank.py:is_open": KEPT,
    "group/rank.py:_apply": KEPT,
    "node/decode/numbered_lives.py:_named":
        "which lives an introduction names; binding_ordered.py says so",
    "node/decode/numbered_lives.py:conclude": KEPT,
    "node/prefill/ended_rooms.py:_bind": EVENT,
    "node/prefill/ended_rooms.py:_leave": EVENT,
    "node/prefill/keeps.py:_look": EVENT,
    "node/prefill/remembered_lives.py:_is_over": KEPT,
    "node/rooms.py:put": SHOWN,
    "node/rooms.py:rank_of": SHOWN,
    "node/prefill/sinks.py:put": SHOWN,
    "node/decode/verification.py:end": EVENT,
    "registry/registry.py:missing": SHOWN,
    "registry/registry.py:present_ranks": SHOWN,
    "registry/sink.py:lost": EVENT,
    "runtime/role.py:_step": WINDOW,
    "runtime/sending.py:_leave_out_landed": WINDOW,
    "runtime/sending.py:handed_over": WINDOW,
    "runtime/sending.py:landed": WINDOW,
}


def is_kind(value: object) -> bool:
    """Whether it is a class of frames, or a union of them."""
    if isinstance(value, UnionType):
        return all(map(is_kind, value.__args__))
    return isinstance(value, type) and issubclass(value, Versioned)


def kinds(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each function that branches on the kind of a message, and the kind.

    A kind is a class of frames, or of several (`AnyVote`), in `isinstance`, in `match`,
    or compared; or a compared message of the tables.
    """
    known = imported(tree)

    def is_asked(node: ast.AST) -> bool:
        value = None
        if isinstance(node, ast.Attribute):
            value = getattr(known.get(last_name(node.value)), node.attr, None)
        elif isinstance(node, ast.Name):
            value = known.get(node.id)
        return isinstance(value, Message) or is_kind(value)

    def found(node: ast.AST) -> Iterator[ast.expr]:
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, tested]):
                yield from (one for one in ast.walk(tested)
                            if isinstance(one, ast.expr) and is_asked(one))
            case ast.MatchClass(cls=tested) if is_asked(tested):
                yield tested
            case ast.Compare():
                for side in (node.left, *node.comparators):
                    parts = side.elts if isinstance(side, ast.Tuple | ast.Set) else [side]
                    yield from filter(is_asked, parts)

    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                yield from ((function.name, last_name(one)) for one in found(node))


def branching() -> set[str]:
    """Each function outside spec/ that branches on the kind of a message."""
    return {f"{place(path)}:{function}" for path in modules()
            for function, _ in kinds(ast.parse(path.read_text()))}


def test_the_kind_of_a_message_is_asked_only_for_a_reason() -> None:
    assert branching() == BRANCHES.keys()


def read_by(tree: ast.Module) -> Iterator[str]:
    """Each function that reads a variable of the tables, or asks whether a formula holds."""
    known = imported(tree)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                match node:
                    case ast.Call(func=ast.Attribute(attr="value" | "holds"),
                                  args=[ast.Attribute(value=ast.Name(id=there), attr=name), *_]):
                        asked = getattr(known.get(there), name, None)
                    case ast.Call(func=ast.Attribute(attr="value" | "holds"),
                                  args=[ast.Name(id=name), *_]):
                        asked = known.get(name)
                    case _:
                        continue
                if isinstance(asked, Symbol | Formula):
                    yield function.name


def test_a_variable_is_read_only_for_a_reason() -> None:
    reading = {f"{place(path)}:{function}" for path in modules()
               for function in read_by(ast.parse(path.read_text()))}
    assert reading - COMPARES.keys() == READS.keys()


def test_a_reader_is_seen() -> None:
    text = ("from pdproto.spec.handoff import ends\n"
            "from pdproto.spec.handoff.poll import SINK_IS_OVER\n"
            "def one(self):\n    return self.endpoint.value(ends.gone, (0, 0, 0))\n"
            "def two(self):\n    return self.automaton.holds(SINK_IS_OVER, self.state)\n"
            "def three(self):\n    return self.row.value(5) or self.window.holds(self.key)\n")
    assert list(read_by(ast.parse(text))) == ["one", "two"]


@pytest.mark.parametrize(("line", "kind"), [
    ("isinstance(frame, Abort)", "Abort"), ("isinstance(frame, (Done, int))", "Done"),
    ("isinstance(frame, wire.Done | Met)", "Met"), ("isinstance(frame, AnyVote)", "AnyVote"),
    ("by is Abort", "Abort"), ("type(frame) in (Done, Abort)", "Done"),
    ("message is ends.done", "done"), ("message == gone", "gone"),
    ("message in (ends.failed, other)", "failed"),
])
def test_a_branch_on_a_kind_is_seen(line: str, kind: str) -> None:
    head = ("from pdproto.runtime import wire\n"
            "from pdproto.runtime.wire import Abort, AnyVote, Done, Met\n"
            "from pdproto.spec.handoff import ends\n"
            "from pdproto.spec.handoff.ends import gone\n")
    seen = list(kinds(ast.parse(f"{head}def method(self):\n    return {line}")))
    assert ("method", kind) in seen


def test_a_match_on_a_kind_is_seen() -> None:
    text = ("from pdproto.runtime.wire import Done\n"
            "def method(frame):\n    match frame:\n        case Done():\n            pass")
    assert list(kinds(ast.parse(text))) == [("method", "Done")]


@pytest.mark.parametrize("line", [
    "done == gone", "isinstance(frame, int)", "ends.done(1)", "self.on[ends.done] = 1"])
def test_what_asks_for_no_kind_is_told_from_it(line: str) -> None:
    text = f"from pdproto.spec.handoff import ends\ndef method(self):\n    {line}"
    assert list(kinds(ast.parse(text))) == []
