"""R8c: two aborted uses of a room share one record of the answers.

Decode holds the pages of both. The answer to the second abort releases the pages of the first,
whose own answer is thrown away. With that the record is gone, and the pages of the second wait for
the clock, although prefill has drained.
"""

from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World, wait
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import fail, must, ready


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    sender, first = ready(prefill, decode, 8, page=1)
    prefill.sent.is_held = True  # the answers are slow
    first.abort()
    decode.fail(first)
    must(lambda: len(prefill.sent.held) == 1, "prefill has answered the first abort")
    fail(sender)
    _, second = ready(prefill, decode, 8, page=2)
    second.abort()
    decode.fail(second)
    must(lambda: len(prefill.sent.held) == 2, "prefill has answered the second abort")
    prefill.sent.held[0]()
    first_by_own = wait(lambda: decode.may_release(first), 1.0)
    prefill.sent.held[1]()
    first_by_other = wait(lambda: decode.may_release(first), 1.0)
    decode.release(first)
    return Seen(not first_by_own and first_by_other and not decode.may_release(second),
                "the answer to the first abort counts for nothing, the answer to the second "
                "releases the pages of the first, and the pages of the second wait for 30 s")


SCRIPT: Final = Script(
    scene, race="R8c", expected="each answer releases the pages of its own abort")

if __name__ == "__main__":
    play(SCRIPT)
