"""B29 and B57, part 4: prefill restarts, and decode goes on writing to the process that is gone.

The bootstrap server stays up, so /health answers, and decode's heartbeat finds no fault. The new
process has registered another port. Decode has cached the old one, sends its metadata to a closed
port, and notices nothing.
"""

import os
import signal
from time import sleep
from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World, leave, wait
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import READY, SUCCESS, must

BEATS = 6


def another_process(world: World) -> int:
    """A prefill process that hands over room 1, and then lives on. Returns its number."""
    child = os.fork()
    if child:
        return child
    prefill = Prefill(world)
    sender = prefill.sender(1)
    if wait(lambda: sender.poll() == READY, 30.0):
        sender.send(prefill.computed(1, 8, 1))
    sleep(60.0)
    leave(0)
    return 0


def scene(world: World) -> Seen:
    old = another_process(world)
    decode = Decode(world)
    decode.manager.heartbeat_interval = 0.5
    first = decode.receiver(1)
    decode.publish(first, 1)
    must(lambda: first.poll() == SUCCESS, "room 1 is handed over")
    first.clear()
    os.kill(old, signal.SIGKILL)
    os.waitpid(old, 0)
    new = Prefill(world)
    sender, receiver = new.sender(29), decode.receiver(29)
    decode.publish(receiver, 1)
    sleep(BEATS * 0.5 + 2)
    return Seen(sender.poll() == 1 and receiver.poll() == 2,
                f"after {BEATS} heartbeats the room is {new.status(29)} on prefill and "
                f"{decode.status(29)} on decode, which has the address of the old process: port "
                f"{receiver.bootstrap_infos[0]['rank_port']}, not {new.manager.rank_port}")


SCRIPT: Final = Script(
    scene, race="B29, B57",
    expected="decode learns the new address, or fails the room", traced=False)

if __name__ == "__main__":
    play(SCRIPT)
