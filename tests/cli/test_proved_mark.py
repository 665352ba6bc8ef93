"""The mark "proved for every size": each form of a check has it, or none has.

Here the claim holds at the sizes that are checked, whether or not it holds at every size.
"""

from pathlib import Path
from typing import Final

import pytest

from pdproto.cli.main import main
from pdproto.cli.reports import REPORTS

SPEC: Final = '''
from pdproto.spec.language import *
class N(Sort): "n"
a, b, c = N("a"), N("b"), N("c")
h = Machine("h")
bad, worse = h.relation("bad"), h.relation("worse")
three = [a.differs(b), b.differs(c), a.differs(c)]
SYSTEM = System("s", "s", tables=(Table(h, rows=(
    Row("first", on=Call("first", a, b, c), when=[*three, {guard}], do=[bad().to(True)]),
    Row("then", on=Call("then"), when=[bad()], do=[worse().to(True)]))),),
    faults={{"breaks": (Table(Machine("w", world=True), rows=({fault},)),)}},
    properties=(Always("claim", ~worse()), {more}), final=all_of())
LEMMAS = ({lemmas},)
'''
TRUE: Final = {"guard": "FALSE", "more": "", "lemmas": 'Always("never_bad", ~bad())',
               "fault": 'Row("none", when=[FALSE], do=[bad().to(True)], fair=False)'}
LATER: Final = 'Row("break", choose=(a, b, c), when=three, do=[bad().to(True)], fair=False)'
MARK: Final = "proved for every size"
MARKED: Final = {"text", "json", "html", "junit"}  # the others tell no claim that holds, or no mark
FORMS: Final = ("--json", "--html", "--sarif", "--junit", "--mermaid")
# Where the mark would be false: the edits of the spec before and after the proof, and its options.
FALSE_MARKS: Final = {
    "a changed table": ({}, {"guard": "~bad()"}, ()),
    "a fault that was added": ({}, {"fault": LATER}, ()),
    "a lemma that fails": ({"guard": "~bad()"}, {}, ()),
    "a question about one claim": ({"guard": "~bad()"}, {}, ("--property", "claim")),
    "a question without faults": ({"fault": LATER}, {}, ("--faults", "none")),
    "a claim on which it rests": (
        {"guard": "~bad()", "lemmas": "*()", "more": 'Always("base", ~bad())'}, {}, ()),
}
BY_DAY: Final = ("a changed table", "a lemma that fails", "a question without faults")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def proved(spec: Path, edit: dict[str, str], *options: str) -> str:
    """What all forms of a proof say, in the order in which they are read."""
    spec.write_text(SPEC.format(**{**TRUE, **edit}))
    files = [part for one in ("--json", "--html") for part in (one, f"{spec}{one}")]
    main(["prove", f"{spec}:SYSTEM", "--quiet", *options, *files])
    return "".join(Path(one).read_text() for one in files[1::2])


def marked(spec: Path, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The forms of a check that have the mark on the claim, or anywhere."""
    capsys.readouterr()
    files = [part for one in FORMS for part in (one, f"{spec}{one}")]
    assert {one[2:] for one in FORMS} == REPORTS.keys()
    main(["check", f"{spec}:SYSTEM", "--size", "N=2", "--faults", "breaks", "--quiet",
          "--format", "github", *files])
    told = {one[2:]: path.read_text() for one in FORMS
            if (path := Path(f"{spec}{one}")).exists()} | {"text": capsys.readouterr().out}
    assert {"text", *REPORTS} - {"mermaid"} <= told.keys()
    return {form for form, text in told.items() if MARK in text}


def test_each_form_has_the_mark_of_a_proof(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "spec.py"
    assert MARK in proved(spec, {})
    assert marked(spec, capsys) == MARKED


@pytest.mark.parametrize("name", [
    name if name in BY_DAY else pytest.param(name, marks=pytest.mark.nightly)
    for name in FALSE_MARKS])
def test_no_form_has_a_mark_that_would_be_false(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after, options = FALSE_MARKS[name]
    spec = tmp_path / "spec.py"
    told = proved(spec, before, *options)
    if "--faults" in options:  # the proof is one, and each mark has its condition
        assert told.count(MARK) == told.count("in runs without breaks faults") > 0
    elif not after:
        assert MARK not in told
    spec.write_text(SPEC.format(**{**TRUE, **before, **after}))
    assert marked(spec, capsys) == set()
