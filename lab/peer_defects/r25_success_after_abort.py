"""R25: prefill tells decode of success for a room that it has just marked as failed.

The worker checks that the room has not failed, decides for Success, then writes the status and
sends the message. An abort of one decode rank comes between the check and the write: the status
stays Failed, the message has Success, and the other decode rank takes it.
"""

from typing import Any, Final

import numpy as np

from lab.peer_defects.pair import Decode, Prefill, World, wait
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import FAILED, READY, SUCCESS, must


def scene(world: World) -> Seen:
    prefill = Prefill(world, is_mla=True)
    ranks = [Decode(world, rank=rank, ranks=2) for rank in range(2)]
    first, second = (rank.receiver(25) for rank in ranks)
    must(lambda: len(prefill.manager.decode_kv_args_table) == 2, "both ranks are registered")
    sender = prefill.sender(25)
    for receiver in (first, second):
        receiver.send_metadata(np.array([1], np.int32), 0)
    must(lambda: sender.poll() == READY, "the room is ready")
    prefill.aborts.is_held = True
    first.abort()
    must(lambda: prefill.aborts.held, "the abort has come")
    inner = prefill.manager.update_status

    def update_status(room: int, status: Any) -> None:
        if status == SUCCESS:
            prefill.aborts.let_go()  # the control thread does this, at that moment
        inner(room, status)

    prefill.manager.update_status = update_status
    sender.send(prefill.computed(25, 8, 1))
    must(lambda: sender.poll() == FAILED, "prefill has failed")
    shows = wait(lambda: second.poll() == SUCCESS, 2.0)
    return Seen(shows, f"prefill polls {prefill.status(25)}, and the rank that did not abort polls "
                f"{ranks[1].status(25)}")


SCRIPT: Final = Script(
    scene, race="R25", expected="no decode rank succeeds where prefill has failed")

if __name__ == "__main__":
    play(SCRIPT)
