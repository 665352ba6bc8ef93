"""Servers of this release and of the next one hand over to each other, in processes of their own.

The next release is a copy of this one with a version more of the messages between nodes, in which
prefill adds a field, and one more of the frames between engines.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdproto.engine import frames
from pdproto.runtime.versions import VERSION
from tests.e2e.release_servers import ABORTED, HERE, ROOMS, Server, hand_over

NEXT = VERSION + 1


def replaced(file: Path, pattern: str, by: str) -> None:
    text, count = re.subn(pattern, by, file.read_text())
    assert count == 1, f"{file.name}: {pattern} is there {count} times"
    file.write_text(text)


@pytest.fixture(scope="module")
def the_next(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The next release."""
    package = tmp_path_factory.mktemp("next") / "pdproto"
    shutil.copytree(HERE, package, ignore=shutil.ignore_patterns("__pycache__"))
    replaced(package / "runtime/versions.py", r"(?m)^VERSION: Final = \d+$",
             f"VERSION: Final = {NEXT}")
    replaced(package / "engine/frames.py", r"(?m)^VERSION: Final = \d+$",
             f"VERSION: Final = {frames.VERSION + 1}")
    replaced(package / "runtime/wire.py", r"    use: U63 = 0\n",
             f"    use: U63 = 0\n    hint: Annotated[str, Meta(extra={{'since': {NEXT}}})] = ''\n")
    replaced(package / "node/prefill/sender.py", r"self\.metadata\), self\.use\)",
             "self.metadata), self.use, 'of the next release')")
    yield package
    shutil.rmtree(package)


def test_servers_are_upgraded_one_after_the_other(the_next: Path) -> None:
    """Either side first: each pair hands over, and writes the newest version of both."""
    well = ROOMS - ABORTED
    with Server("prefill", HERE) as prefill:
        with Server("decode", HERE) as decode:
            assert hand_over(prefill, decode, 0) == ([well, VERSION], [well, VERSION])
        with Server("decode", the_next) as decode:
            assert hand_over(prefill, decode, 100) == ([well, VERSION], [well, VERSION])
    with Server("decode", HERE) as decode, Server("prefill", the_next) as prefill:
        assert hand_over(prefill, decode, 0) == ([well, VERSION], [well, VERSION])
    with Server("decode", the_next) as decode:
        with Server("prefill", HERE) as prefill:
            assert hand_over(prefill, decode, 0) == ([well, VERSION], [well, VERSION])
        with Server("prefill", the_next) as prefill:
            assert hand_over(prefill, decode, 200) == ([well, NEXT], [well, NEXT])


@pytest.fixture(scope="module")
def another_build(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A build of the same version whose messages have one field more, which nobody has marked."""
    package = tmp_path_factory.mktemp("another") / "pdproto"
    shutil.copytree(HERE, package, ignore=shutil.ignore_patterns("__pycache__"))
    replaced(package / "runtime/wire.py", r"    use: U63 = 0\n",
             "    use: U63 = 0\n    hint: str = ''\n")
    yield package
    shutil.rmtree(package)


@pytest.mark.parametrize("other", ["prefill", "decode"])
def test_both_ends_name_the_formats_of_builds_that_do_not_understand_each_other(
    other: str, another_build: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whichever of them is of the other build: each room of decode fails, and each log says why."""
    of = {"prefill": HERE, "decode": HERE, other: another_build}
    with Server("prefill", of["prefill"]) as prefill, Server("decode", of["decode"]) as decode:
        decode.ask(range(ROOMS), prefill)
        assert decode.answer() == [0, VERSION]
    told = re.findall(r"node (\w+): .* the format (\w+), and this node in the format (\w+)",
                      capfd.readouterr().err)
    formats = {name: (ours, theirs) for name, theirs, ours in told}
    assert formats.keys() == {"prefill", "decode"}
    assert formats["prefill"] == formats["decode"][::-1]
