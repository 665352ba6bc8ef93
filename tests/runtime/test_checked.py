"""The rules for arguments: each mistake is refused with its name, its value and the rule."""

import ast
import re
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from pdproto.runtime import checked
from pdproto.runtime.limits import NAME_BYTES_MAX, PAGES_MAX, REASON_MAX, ROOM_MAX

PACKAGE: Final = Path(checked.__file__).parents[1]

REFUSED: list[tuple[Callable[..., Any], Any, type[Exception], str]] = [
    (checked.whole, True, TypeError, "it True: want a whole number, not bool"),
    (checked.whole, "7", TypeError, "it '7': want a whole number, not str"),
    (checked.whole, 1.0, TypeError, "it 1.0: want a whole number, not float"),
    (checked.whole, ROOM_MAX + 1, ValueError, "want 0 to 9,223,372,036,854,775,807"),
    (checked.whole, -1, ValueError, "it -1: want 0 to"),
    (checked.numbers, "12", TypeError, "want a sequence of whole numbers, not str"),
    (checked.numbers, b"12", TypeError, "want a sequence of whole numbers, not bytes"),
    (checked.numbers, {1: 2}, TypeError, "want a sequence of whole numbers, not dict"),
    (checked.numbers, {1, 2}, TypeError, "want a sequence of whole numbers, not set"),
    (checked.numbers, 7, TypeError, "want a sequence of whole numbers, not int"),
    (checked.numbers, (1, 1.5), TypeError, "want a sequence of whole numbers, not tuple"),
    (checked.numbers, np.array([[1, 2]]), TypeError, "a sequence of whole numbers, not ndarray"),
    (checked.numbers, (3, -1), ValueError, "it: -1: want 0 or more"),
    (checked.numbers, range(PAGES_MAX + 1), ValueError, "16,777,217 numbers; 16,777,216 is"),
    (checked.numbers, range(2**70), ValueError, "9,223,372,036,854,775,807 numbers; 16,777,216"),
    (checked.numbers, np.broadcast_to(0, 2**40), ValueError, "1,099,511,627,776 numbers; 16,777"),
    (checked.whole, 10**5_000, ValueError, "it <int without a repr: ValueError>: want 0 to"),
    (checked.seconds, 10**400, ValueError, "want a number of seconds above 0"),
    (checked.text, "", ValueError, "it '': want 1 to 128 characters"),
    (checked.text, b"a", TypeError, "it b'a': want text, not bytes"),
    (checked.text, "a\udc80", ValueError, "without '\\udc80'"),
    (checked.node_name, "é" * 128, ValueError, f"at most {NAME_BYTES_MAX} bytes in UTF-8: it has "
                                               "256"),
    (checked.endpoints, ["tcp://h:1"], TypeError, "want a mapping of endpoints"),
    (checked.endpoints, {}, ValueError, "want one or more endpoints"),
    (checked.endpoints, {"p": 5}, TypeError, "it['p'] 5: want text, not int"),
    (checked.row, "text", TypeError, "it 'text': want bytes, not str"),
    (checked.row, np.arange(4), TypeError, "want bytes, not ndarray"),
    (checked.row, bytes(1 << 20) + b"-", ValueError, "1,048,577 bytes; 1,048,576 is the limit"),
    (checked.function, 5, TypeError, "it 5: want a function, not int"),
    (checked.flag, 1, TypeError, "it 1: want True or False, not int"),
    (checked.seconds, "5", TypeError, "it '5': want a number of seconds, not str"),
    (checked.seconds, float("nan"), ValueError, "it nan: want a number of seconds above 0"),
    (checked.seconds, 0, ValueError, "it 0: want a number of seconds above 0"),
]


@pytest.mark.parametrize(("rule", "value", "kind", "told"), REFUSED,
                         ids=[f"{rule.__name__}-{number}" for number, (rule, *_) in
                              enumerate(REFUSED)])
def test_a_mistake_is_refused_by_name(
    rule: Callable[..., Any], value: object, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind) as refused:
        rule("it", value)
    assert told in str(refused.value)
    assert len(str(refused.value)) < 400
    str(refused.value).encode()


def test_names_of_a_group_are_a_sequence_of_names_each_once() -> None:
    assert checked.node_names("sinks", ["a", "b"], 2) == ("a", "b")
    for mistake in ("ab", {"a": 1}, 5):
        with pytest.raises(TypeError, match=r"sinks .*: want a sequence of names"):
            checked.node_names("sinks", mistake, 2)
    for names in (["a", "a"], ["a", "b", "c"], repeat("a")):
        with pytest.raises(ValueError, match="want at most 2, each once"):
            checked.node_names("sinks", names, 2)


MADE_NEW: Final = frozenset({"whole", "whole_or_none", "numbers", "room", "row", "node_names",
                             "endpoints", "reason", "seconds", "encodable", "one_line"})


def test_what_a_rule_returns_is_used_and_not_what_was_given() -> None:
    """An array without dimensions is a whole number, and no key of a dict: given as the slot of a
    receiver, it ended the turn of the node in which memory was granted.
    """
    begins = re.compile(rf"^ +checked\.({'|'.join(MADE_NEW)})\(", re.MULTILINE)
    unused = [
        f"{path.relative_to(PACKAGE)}:{call.lineno}"
        for path in sorted(PACKAGE.rglob("*.py")) if begins.search(text := path.read_text())
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
        and ast.unparse(call.value.func) in {f"checked.{rule}" for rule in MADE_NEW}]
    assert unused == []
    assert not MADE_NEW - set(vars(checked))


def test_a_reason_is_made_such_that_it_can_be_sent() -> None:
    """`str(OSError)` may hold half a character, and be of any length."""
    assert checked.reason("cannot read \udc80.bin") == "cannot read \\udc80.bin"
    assert len(checked.reason("\udc80" * REASON_MAX)) == REASON_MAX
    with pytest.raises(TypeError, match="reason ValueError"):
        checked.reason(ValueError("so"))


def test_what_is_right_is_taken_as_it_is() -> None:
    pages = (3, 1, 2)
    assert checked.numbers("pages", pages) is pages
    assert checked.numbers("pages", np.array([3, 1], np.int32)) == (3, 1)
    assert checked.numbers("pages", range(3)) == (0, 1, 2)
    assert checked.row("row", bytearray(b"ab")) == b"ab"
    assert checked.room(np.int64(7)) == 7
    assert checked.whole_or_none("use", None) is None
    assert checked.seconds("wait", float("inf")) == float("inf")


def test_a_strangers_text_is_fit_for_a_line() -> None:
    assert checked.one_line("10.0.0.1:8998") == "10.0.0.1:8998"
    assert checked.one_line("a\n\x1b[2Jb\udc80\u2028é") == r"a\n\x1b[2Jb\udc80\u2028é"
    assert checked.one_line("a" * 100, 3) == "aaa..."


def test_a_value_without_a_repr_is_shown_all_the_same() -> None:
    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError("never")

    with pytest.raises(TypeError, match="room <Mute without a repr: RuntimeError>"):
        checked.room(Mute())
