"""SGLang's scheduler finds everything that it reads of a manager, a sender and a receiver.

The names are those that SGLang's own code reads, also where no other test comes. A name that is
missing ends the scheduler, and with it every request of its server.
"""

import ast
from collections.abc import Iterator, Mapping
from inspect import getsource
from pathlib import Path
from typing import Any, Final

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang import srt
from sglang.srt.disaggregation.base import conn

from pdproto.sglang.manager import PdprotoKVManager
from pdproto.sglang.receiver import PdprotoKVReceiver
from pdproto.sglang.sender import PdprotoKVSender
from pdproto.sglang.server import PdprotoKVBootstrapServer
from tests.sglang.releases import of_newest

ROOT: Final = Path(srt.__path__[0])
# The modules that drive a backend. Those of the backends themselves read their own.
DRIVING: Final = (*ROOT.glob("disaggregation/*.py"), *ROOT.glob("managers/*.py"))
# By how SGLang names the object, and by name the reason why ours need not have it.
STAGING: Final = "SGLANG_DISAGG_STAGING_BUFFER is refused at start-up"
ASKED: Final = "SGLang asks first whether it is there"
READ: Final[Mapping[type, tuple[tuple[str, ...], Mapping[str, str]]]] = {
    PdprotoKVManager: (("kv_manager", "kv_mgr"), {
        "transfer_infos": STAGING, "set_kv_buffer_tensors": ASKED,
        "register_buffer_to_engine": ASKED, "deregister_buffer_to_engine": ASKED,
        "attn_cp_rank": "read by a function that other backends call",
        "attn_cp_size": "read by a function that other backends call"}),
    PdprotoKVReceiver: (("kv_receiver",), {}),
    PdprotoKVSender: (("kv_sender", "disagg_kv_sender"), {}),
}


# By SGLang's class and ours: the calls whose answer is SGLang's own, and why.
LEFT: Final[Mapping[tuple[type, type], Mapping[str, str]]] = {
    (conn.BaseKVManager, PdprotoKVManager): {
        "should_verify_kv_checksum": "yes: it comes with the row, and SGLang leaves out "
                                     "those of another layout by their signature"},
    (conn.BaseKVSender, PdprotoKVSender): {},
    (conn.BaseKVReceiver, PdprotoKVReceiver): {},
    (conn.BaseKVBootstrapServer, PdprotoKVBootstrapServer): {},
}


def read_of(called: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each name that SGLang reads of an object that it calls so, and where."""
    for path in DRIVING:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) \
                    and _name(node.value) in called:
                yield node.attr, f"{path.relative_to(ROOT)}:{node.lineno}"


def _name(of: ast.expr) -> str:
    return getattr(of, "attr", "") or getattr(of, "id", "")


def has(kind: Any, name: str) -> bool:
    """Whether its instances have it: by the class, or because a constructor sets it."""
    made = getsource(kind)
    return hasattr(kind, name) or name in kind.__annotations__ or f"self.{name} = " in made


@of_newest
@pytest.mark.parametrize("classes", LEFT, ids=lambda classes: classes[1].__name__)
def test_each_call_of_sglang_is_answered_or_left_to_sglang_for_a_reason(
    classes: tuple[type, type]
) -> None:
    """A new release's new call is noticed here, whatever its class answers."""
    theirs, ours = classes
    calls = {name for name in vars(theirs) if not name.startswith("_")}
    answered = {name for one in ours.__mro__ if one is not theirs for name in vars(one)}
    assert calls - answered == LEFT[classes].keys()


@of_newest
def test_the_answers_that_are_left_to_sglang_are_still_the_same() -> None:
    assert conn.BaseKVManager.should_verify_kv_checksum(None, "") is True


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
def test_ours_has_every_name_that_sglang_reads(kind: type) -> None:
    called, exempt = READ[kind]
    read = dict(read_of(called))
    assert len(read) > 5, "it finds SGLang's names"
    missing = {name: where for name, where in read.items()
               if name not in exempt and not has(kind, name)}
    assert missing == {}


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
def test_an_exempt_name_is_one_that_sglang_reads_and_ours_has_not(kind: type) -> None:
    called, exempt = READ[kind]
    assert set(exempt) <= dict(read_of(called)).keys()
    assert not [name for name in exempt if has(kind, name)]
