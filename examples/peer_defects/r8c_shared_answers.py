"""R8c: two uses of a room that were both aborted share one record of who has answered.

Decode holds the pages of both. The answer to the second abort lets go of the pages of the first,
whose own answer is thrown away; with that the record is gone, and the pages of the second wait for
the clock, although prefill has drained.
"""

from typing import Final

from examples.peer_defects.pair import Decode, Prefill, World, wait
from examples.peer_defects.script import Script, Seen, play
from examples.peer_defects.steps import fail, must, ready


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
                "the answer to the first abort counts for nothing, that to the second lets go of "
                "the first's pages, and then the second's wait for 30 s")


SCRIPT: Final = Script(
    scene, race="R8c", expected="each answer lets go of the pages of its own abort")

if __name__ == "__main__":
    play(SCRIPT)
