"""No module outside spec/ decides the protocol by a copy of a variable of its tables.

The records of a module may keep what steps have changed, or what the application said, under the
name of a variable. A condition on such an attribute is a rule that no search sees: `not
request.retracted` once was. So a function asks for one only where COPIES says why. A module counts
as a user of the tables from which it imports. Each module of a node may ask for the incarnation of
a peer, so that name counts in all of them. States are in test_spec_is_data.py.
"""

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module

import pytest

from pdproto.spec import handoff
from pdproto.spec.handoff import incarnations
from pdproto.spec.language.symbols import Variable
from tests.runtime.test_spec_is_data import (
    EVENT,
    KEPT,
    QUIET,
    SHOWN,
    SIGNS,
    SPARED,
    modules,
    place,
)

ENDS = "a message for another run of this process is refused: that run has ended"
IN_NODES = {incarnations.incarnation.name}  # in each module of a node
NAMESAKE = "it has the name of a variable, and means something else"
# Each function with the variable that it asks for.
COPIES: Mapping[tuple[str, str], str] = {
    ("group/entry.py:hear", "confirmed"): KEPT,
    ("group/entry.py:served", "status"): SHOWN,
    ("group/rank.py:_decision", "stage"): SHOWN,
    ("group/rank.py:_enter", "stage"): SHOWN,
    ("group/rank.py:call", "stage"): EVENT,
    ("node/core.py:_take_batch", "incarnation"): EVENT,
    ("node/prefill/in_doubt.py:take", "incarnation"): KEPT,
    ("node/optimistic/prefill.py:_go_on", "stage"): EVENT,
    ("node/optimistic/prefill.py:_is_over", "ready"): KEPT,
    ("node/optimistic/prefill.py:_is_over", "stage"): KEPT,
    ("node/optimistic/prefill.py:_poll", "ready"): EVENT,
    ("node/optimistic/prefill.py:_poll", "stage"): EVENT,
    ("node/optimistic/prefill.py:_reserve", "slot"): SPARED,
    ("node/optimistic/prefill.py:abort", "stage"): EVENT,
    ("node/optimistic/prefill.py:ensure_metadata_buffer", "slot"): SPARED,
    ("node/optimistic/record.py:enter", "ready"): KEPT,
    ("node/optimistic/steps.py:end", "running_slot"): KEPT,
    ("node/optimistic/steps.py:end", "slot"): KEPT,
    ("node/prefill/binding.py:endpoint_of", "incarnation"): ENDS,
    ("node/connections.py:_encoded", "incarnation"): NAMESAKE,
    ("node/connections.py:_encoded", "presence"): SIGNS,
    ("node/connections.py:_is_well", "incarnation"): NAMESAKE,
    ("node/connections.py:_look", "presence"): EVENT,
    ("node/connections.py:_look_for_end", "incarnation"): NAMESAKE,
    ("node/connections.py:_take", "ended"): EVENT,
    ("node/connections.py:connect", "ended"): SIGNS,
    ("node/connections.py:note_heard", "presence"): SPARED,
    ("node/connections.py:refuse", "incarnation"): NAMESAKE,
    ("node/decode/receivers.py:is_awaited", "presence"): QUIET,
    ("node/peer.py:cut_off", "ended"): SHOWN,
    ("node/peer.py:measure_peers", "presence"): SHOWN,
    ("node/prefill/remembered_lives.py:_is_silent", "presence"): QUIET,
    ("node/prefill/remembered_lives.py:silent", "presence"): SHOWN,
    ("node/decode/sink_memory.py:has_spoken", "incarnation"): EVENT,
    ("registry/registrar.py:_note", "reason"): NAMESAKE,
    ("registry/registry.py:_known", "runs"): NAMESAKE,
    ("registry/registry.py:info", "ready"): SHOWN,
    ("registry/registry.py:missing", "refused"): SHOWN,
    ("registry/registry.py:owner", "runs"): NAMESAKE,
    ("registry/registry.py:require_open", "ready"): SHOWN,
    ("registry/rooms.py:restore", "question"): EVENT,
    ("runtime/sending.py:meet", "handed"): NAMESAKE,
}


def imports(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The names of the variables of the tables from which a module imports, and the names that the
    module gives to modules of tables.
    """
    variables, tables = set[str](), set[str]()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                handoff.__name__):
            continue
        parts = {node.module or ""}
        if node.module == handoff.__name__:
            parts = {f"{node.module}.{one.name}" for one in node.names}
            tables |= {one.asname or one.name for one in node.names}
        for part in parts:
            variables |= {value.name for value in vars(import_module(part)).values()
                          if isinstance(value, Variable)}
    return variables, tables


def conditions(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """What the function tests: of an `if`, `while`, `and`, `or`, `not`, a comparison, a filter, and
    of `bool(...)`.
    """
    for node in ast.walk(function):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield test
            case ast.BoolOp(values=values):
                yield from values
            case ast.comprehension(ifs=ifs):
                yield from ifs
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield operand
            case ast.Compare(left=left, comparators=others):
                yield from (left, *others)
            case ast.Call(func=ast.Name(id="bool"), args=arguments):
                yield from arguments


def copies(tree: ast.Module, folder: str = "") -> Iterator[tuple[str, str]]:
    """Each function that tests an attribute with the name of a variable, and that name."""
    variables, tables = imports(tree)
    if folder == "node":
        variables |= IN_NODES
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for test in conditions(function):
                match test:
                    case ast.Attribute(value=ast.Name(id=name)) if name in tables:
                        continue
                    case ast.Attribute(attr=name) if name in variables:
                        yield function.name, name


def test_a_copy_of_a_variable_is_asked_only_for_a_reason() -> None:
    asking = {(f"{place(path)}:{function}", name) for path in modules()
              for function, name in copies(ast.parse(path.read_text()), place(path).split("/")[0])}
    assert asking == COPIES.keys()


@pytest.mark.parametrize("line", [
    "return free and not request.retracted", "if request.ready: pass",
    "return [one for one in all_ if one.retracted]", "return 1 if self.retracted else 2",
    "return bool(self.one.retracted)", "return self.ready == other", "while not a.b.ready: pass",
])
def test_a_condition_on_a_copy_is_seen(line: str) -> None:
    head = ("from pdproto.spec.handoff import attempts as tables\n"
            "from pdproto.spec.handoff.optimistic_retracted import PREFILL_RETRACTING\n")
    tree = ast.parse(f"{head}def method(self, request):\n    {line}")
    assert {function for function, _ in copies(tree)} == {"method"}


@pytest.mark.parametrize("line", [
    "self.ready = True", "call(request.ready)", "return symbol is tables.ready",
    "if request.unknown: pass"])
def test_what_tests_no_copy_is_told_from_it(line: str) -> None:
    head = "from pdproto.spec.handoff import attempts as tables\n"
    assert list(copies(ast.parse(f"{head}def method(self, request):\n    {line}"))) == []


def test_only_the_tables_count_that_a_module_imports() -> None:
    assert list(copies(ast.parse("def method(self):\n    return not self.retracted"))) == []


def test_an_incarnation_counts_in_every_module_of_a_node() -> None:
    text = "def method(self, peer):\n    return bool(peer.incarnation)"
    assert list(copies(ast.parse(text), "node")) == [("method", "incarnation")]
