"""The trace of a node: messages that no row answers, and a target that takes no more lines."""

import io
import json

from pdproto.node.link import Link
from pdproto.node.prefill.node import Prefill
from pdproto.runtime.trace import Lines, TraceWriter
from pdproto.runtime.wire import Introduce, Life, Publish
from tests.node.data_paths import Fabric, SourceDataPath
from tests.node.offline import Offline


def test_a_message_that_no_row_answers_is_a_line() -> None:
    """A sink gives its life up: rows of the source read that, and none fires on it."""
    written = io.BytesIO()
    path = SourceDataPath("p0", Fabric(), at_once=False)
    node = Prefill("p0", path, link=Link(), incarnation=5, trace=TraceWriter("p0", written))
    offline = Offline(node.core)
    sender, life = node.open(7), Life(7, 17, 0)
    offline.hear("d0", Introduce(life, ("d0",), "tcp://d0:1"))
    offline.hear("d0", Publish(life, b"here", 1, ("d0",), "tcp://d0:1"))
    sender.send([1])
    offline.turn()
    offline.hear("d0", floor=1)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [(line["heard"], line["of"]) for line in lines if "heard" in line] == [
        ("sink_over", ["d0", [7, 17, 0], "p0"])]
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))


def test_a_target_that_has_failed_is_asked_no_more() -> None:
    class Full:
        asked = 0

        def write(self, _data: bytes) -> int:
            self.asked += 1
            raise OSError("No space left on device")

    target = Full()
    lines = Lines("p0", target)
    for _ in range(3):
        lines.put("source", 0, [{"row": "post"}])
    assert target.asked == 1
    assert lines.ended is not None
    assert "No space left on device" in lines.ended
