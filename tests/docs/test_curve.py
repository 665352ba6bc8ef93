"""The picture of the time to the first token is that of the kept figures."""

import json
from pathlib import Path

from tests.servers.curve import ALONE, KEPT, LENGTHS, PICTURE, drawn


def test_the_picture_is_that_of_the_figures_and_stands_in_both_guides() -> None:
    """Seen red with one figure changed, and without the picture in a guide."""
    kept = json.loads(KEPT.read_text())
    assert PICTURE.read_text() == drawn(kept)
    for engine, others in (("SGLang", ["Mooncake"]), ("vLLM", ["pdproto, in turn", "NIXL"])):
        assert {ALONE, "pdproto, at once", *others} == kept[engine].keys()
        for points in kept[engine].values():
            assert list(points) == [str(length) for length in LENGTHS]
        guide = Path(f"docs/how-to/{engine.lower()}.md").read_text()
        assert f"](../{PICTURE.name})" in guide


def test_the_guides_tell_which_way_is_faster() -> None:
    """Seen red with the figures of two ways exchanged, for each sentence."""
    kept = json.loads(KEPT.read_text())
    for engine, other in (("SGLang", "Mooncake"), ("vLLM", "NIXL")):
        for name in kept[engine].keys() - {ALONE, other}:
            assert all(kept[engine][other][length] < at
                       for length, at in kept[engine][name].items()), name
    in_turn, at_once = (kept["vLLM"][f"pdproto, {way}"] for way in ("in turn", "at once"))
    shortest, longest = str(LENGTHS[0]), str(LENGTHS[-1])
    assert at_once[shortest] < in_turn[shortest]
    assert at_once[longest] > in_turn[longest]
