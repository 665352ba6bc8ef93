"""The picture of the time to the first token is that of the kept figures."""

import json
from pathlib import Path

from tests.servers.curve import ALONE, KEPT, LENGTHS, PICTURE, drawn


def test_the_picture_is_that_of_the_figures_and_stands_in_both_guides() -> None:
    """Seen red with one figure changed."""
    kept = json.loads(KEPT.read_text())
    assert PICTURE.read_text() == drawn(kept)
    for engine, others in (("SGLang", ["Mooncake"]), ("vLLM", ["pdproto, in turn", "NIXL"])):
        assert {ALONE, "pdproto, at once", *others} == kept[engine].keys()
        for points in kept[engine].values():
            assert list(points) == [str(length) for length in LENGTHS]
        guide = Path(f"docs/how-to/{engine.lower()}.md").read_text()
        assert f"](../{PICTURE.name})" in guide
