"""No module outside spec/ decides the protocol: none assigns a state of the tables.

What a rank's state becomes is what an automaton or a store of the tables answers. Code outside may
look something up by a state, or give a value that the declaration lets a device write; and it may
begin with the initial value. It compares a state only where COMPARES says why. Anything else that
names a state is refused here. test_messages_are_data.py is about messages and variables.
"""

import ast
import enum
import pkgutil
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pytest

from pdproto.runtime import wire
from pdproto.spec import handoff
from pdproto.spec.language import State
from pdproto.spec.language.symbols import Variable

PRODUCT = Path(__file__).resolve().parents[2] / "pdproto"
FOLDERS = (
    "cli", "drill", "engine", "group", "items", "node", "pages", "registry", "runtime", "sglang",
    "transport", "vllm",
)  # fmt: skip
SHOWN = "for an application, an operator or a metric; no row depends on it"
EVENT = "which event the tables get; they may reject it"
SPARED = "work that is spared; the tables decide the outcome"
KEPT = "which records are kept or joined, of requests that the tables have bound or ended"
EFFECT = "which order or count follows from a stage that the table has entered"
SIGNS = "when a sign of life goes to a peer, and what it tells of the connection; no row reads it"
QUIET = "which peers a drain waits for: none that is silent; its table hears only that nobody asks"
# Each function that compares a state, and why it may.
COMPARES: Mapping[str, str] = {
    "drill/handoff/group.py:_apply": EVENT,
    "group/entry.py:_enter": SHOWN,
    "group/group.py:_known": SHOWN,
    "group/pass_entry.py:_enter": SHOWN,
    "group/pass_rank.py:_follow": KEPT,
    "group/rank.py:_decision": SHOWN,
    "group/rank.py:_enter": SHOWN,
    "group/rank.py:call": EVENT,
    "node/connections.py:_encoded": SIGNS,
    "node/connections.py:_take": EVENT,
    "node/connections.py:note_heard": SPARED,
    "node/decode/receivers.py:is_awaited": QUIET,
    "node/prefill/binding.py:_bind": KEPT,
    "node/prefill/binding.py:_leave": KEPT,
    "node/prefill/binding.py:_refuse_early": KEPT,
    "node/drain.py:_look": EVENT,
    "node/decode/fences.py:end": EVENT,
    "node/decode/sink_memory.py:_gives_back": EVENT,
    "node/decode/sink_memory.py:_waiting": SPARED,
    "node/decode/sink_memory.py:serve": SPARED,
    "node/optimistic/prefill.py:_go_on": EVENT,
    "node/optimistic/prefill.py:_poll": EVENT,
    "node/optimistic/steps.py:_enter": EFFECT,
    "node/optimistic/steps.py:is_whole": EVENT,
    "node/prefill/keeps.py:_follow": EVENT,
    "node/prefill/keeps.py:open": EVENT,  # a life that has ended asks for nothing
    "node/prefill/routing.py:_drop_alone": KEPT,
    "node/prefill/routing.py:_follow": EVENT,
    "node/rooms.py:failed": SHOWN,
    "node/prefill/sender.py:is_wanted": SPARED,
    "node/prefill/senders.py:open_ends": SHOWN,
    "node/prefill/sinks.py:_be_over": EVENT,
    "node/prefill/sinks.py:_compare": EVENT,
    "node/prefill/source_writes.py:_end": SHOWN,
    "transport/spans.py:_follow": SHOWN,
    "node/decode/verification.py:is_due": SPARED,
    "vllm/sending.py:take": EFFECT,  # prefill answers when the table frees the blocks
    "registry/registry.py:is_current": KEPT,
    "registry/registry.py:ready": SHOWN,
    "registry/rooms.py:_end": EVENT,
    "registry/rooms.py:_is_another": KEPT,
    "registry/rooms.py:end_run": EVENT,
    "registry/rooms.py:is_asked": SPARED,
    "registry/rooms.py:is_mismatched": SHOWN,
    "registry/rooms.py:kept": KEPT,
    "registry/sink.py:question": EVENT,
    "vllm/loading.py:over": SHOWN,
}
SOURCES = handoff.__name__, wire.__name__, "pdproto.runtime"  # of states, messages and frames
LOADS = {"step.state", "LOAD.initial"}
PEERS = {"_PEER.take(event, peer.state).state"}
# A new prompt begins with `automaton.initial`; the others are answers, or move places.
PROMPTS = {
    "state", "after.state", "self._role.apart(sinks, after.state)",
    "self._automaton.translate(of.state, wider)",
    "self._role.without(self._automaton, of.state, counted.of_sort, place)"}
STEPS = {
    "step.state", "automaton.initial", "self.automaton.translate(self.state, automaton, places)"}


def spec_modules() -> list[object]:
    return [import_module(f"{handoff.__name__}.{found.name}")
            for found in pkgutil.iter_modules(handoff.__path__)]


def enums() -> Mapping[str, list[type[State]]]:
    """The enums of states, by their names. Several parts of the protocol have a `Stage`."""
    found: dict[str, list[type[State]]] = {}
    for module in spec_modules():
        for name, value in vars(module).items():
            if (isinstance(value, type) and issubclass(value, State) and value is not State
                    and value not in found.setdefault(name, [])):
                found[name].append(value)
    return found


def device_values() -> set[object]:
    """What some device may write: its outcome, not a decision."""
    variables = [value for module in spec_modules() for value in vars(module).values()
                 if isinstance(value, Variable)]
    return {value for variable in variables for value in variable.engine_writes
            if isinstance(value, enum.Enum)}


ENUMS, DEVICE_VALUES = enums(), device_values()


def last_name(node: ast.expr) -> str:
    """`Sending` of `Sending` and of `ends.Sending`; empty for any other expression."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def imported(tree: ast.Module) -> dict[str, object]:
    """Objects of spec/handoff and of the wire, by the names that a module gives them."""
    found: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(SOURCES):
            module = import_module(node.module or "")
            found.update({one.asname or one.name: getattr(module, one.name) for one in node.names
                          if hasattr(module, one.name)})
    return found


def named(tree: ast.Module) -> Iterator[tuple[ast.Attribute, State, list[ast.AST]]]:
    """Each place that names a state, with the nodes around it, the innermost first. Of enums with
    the same name, the imported one counts.
    """
    known = imported(tree)

    def meant(name: str, member: str) -> State | None:
        enums = [enum for enum in ENUMS.get(name, ()) if member in enum.__members__]
        ours = [enum for enum in enums if enum is known.get(name)]
        return next((enum[member] for enum in ours or enums), None)

    def visit(node: ast.AST, around: list[ast.AST]) -> Iterator[
            tuple[ast.Attribute, State, list[ast.AST]]]:
        if isinstance(node, ast.Attribute):
            state = meant(last_name(node.value), node.attr)
            if state is not None:
                yield node, state, around
        for child in ast.iter_child_nodes(node):
            yield from visit(child, [node, *around])

    yield from visit(tree, [])


def use(node: ast.Attribute, state: State, around: list[ast.AST]) -> str:
    """What the code does with the state; "decides" is what none may do."""
    inner: ast.AST = node
    for outer in around:
        match outer:
            case ast.Compare():
                return "compares"
            case ast.Subscript() if inner is outer.slice:
                return "looks up"
            case ast.Dict() if inner in outer.keys:
                return "looks up"
            case ast.Call(func=ast.Attribute(attr="bits" | "get" | "fromkeys")):
                return "looks up"
            case ast.Assign() | ast.AnnAssign() | ast.Return() | ast.Call() | ast.NamedExpr():
                break
            case ast.FunctionDef():
                break
        inner = outer
    if state is next(iter(type(state))):
        return "begins"
    if state in DEVICE_VALUES:
        return "reports"
    whole = [outer for outer in around if isinstance(outer, ast.FunctionDef | ast.Lambda)]
    return "decides" if whole else "lists"


def states_set(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each assignment to an attribute called `state`, with what is assigned."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = [t for target in node.targets for t in ast.walk(target)
                       if isinstance(t, ast.Attribute)]
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr == "state":
                value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
                yield target.lineno, ast.unparse(value) if value is not None else "+="


def modules() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (PRODUCT / folder).rglob("*.py"))


def place(path: Path) -> str:
    """Of a module, as `node/core.py`."""
    return path.relative_to(PRODUCT).as_posix()


def test_every_folder_has_modules() -> None:
    """A folder that has moved would make the test below look at nothing."""
    assert {place(path).split("/")[0] for path in modules()} == set(FOLDERS)


def uses() -> Iterator[tuple[str, str]]:
    """What each function outside spec/ does with states that it names."""
    for path in modules():
        for node, state, around in named(ast.parse(path.read_text())):
            function = next((outer.name for outer in around
                             if isinstance(outer, ast.FunctionDef)), "")
            yield f"{place(path)}:{function}", use(node, state, around)


def test_no_module_decides_a_state() -> None:
    found = Counter(uses())
    assert {where for where, what in found if what == "decides"} == set()
    assert {"compares", "looks up", "begins", "reports"} <= {what for _, what in found}
    assert found.total() > 20


def test_a_state_is_compared_only_for_a_reason() -> None:
    assert {where for where, what in uses() if what == "compares"} == COMPARES.keys()


def test_two_enums_of_one_name_are_told_apart() -> None:
    """A map by name alone once left nine enums out, because another part had the same name."""
    assert len(ENUMS["Stage"]) > 1
    for stage in ENUMS["Stage"]:
        head = f"from {stage.__module__} import Stage\n"
        for member in stage.__members__:
            tree = ast.parse(f"{head}def method(self):\n    return self.stage is Stage.{member}")
            assert [state for _, state, _ in named(tree)] == [stage[member]]


def test_an_endpoint_is_where_its_automaton_says() -> None:
    """Only an answer of an automaton becomes the state of an endpoint, of a peer, of the prompts of
    a room, or of a load under vLLM.
    """
    found = {(path.name, value) for path in modules()
             for _, value in states_set(ast.parse(path.read_text()))}
    assert {value for name, value in found if name == "endpoint.py"} == STEPS
    assert {value for name, value in found if name == "endpoints.py"} == {"step.state"}
    assert {value for name, value in found if name == "loading.py"} == LOADS
    assert {value for name, value in found if name == "connections.py"} == PEERS
    assert {value for name, value in found if name == "binding_room.py"} == PROMPTS
    assert {name for name, _ in found} == {
        "binding_room.py", "connections.py", "endpoint.py", "endpoints.py", "loading.py"}


@pytest.mark.parametrize(("line", "what"), [
    ("self.stage = Sending.SUCCESS", "decides"),
    ("return Claim.DRAINED", "decides"),
    ("go(endpoint, Receiving.FAILED)", "decides"),
    ("state = Sending.FAILED if late else Sending.TRANSFERRING", "decides"),
    ("self.table.update({'sending': Sending.FAILED})", "decides"),
    ("if self.stage is Sending.FAILED: pass", "compares"),
    ("done = self.stage in (Sending.FAILED, Sending.SUCCESS)", "compares"),
    ("self.count[Sending.FAILED] += 1", "looks up"),
    ("self.on[ends.sending, Sending.FAILED] = self.react", "looks up"),
    ("self.on.update({(ends.claim, Claim.FENCING): self.fence})", "looks up"),
    ("self.stage = Sending.UNKNOWN", "begins"),
    ("value = Write.LANDED", "reports"),
])
def test_the_rule_tells_them_apart(line: str, what: str) -> None:
    tree = ast.parse(f"def method(self):\n    {line}")
    assert {use(node, state, around) for node, state, around in named(tree)} == {what}


def test_the_rule_sees_assignments() -> None:
    tree = ast.parse("endpoint.state = 5\na, b.state = 1, 2\nself.state |= 4\nself.state: int = 0")
    assert [line for line, _ in states_set(tree)] == [1, 2, 3, 4]
