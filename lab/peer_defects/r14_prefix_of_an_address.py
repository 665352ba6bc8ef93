"""R14: when one prefill server dies, decode forgets another whose address begins like its own.

Decode compares only the beginning of a text: 10.0.0.1:80 is the beginning of 10.0.0.1:8000, and of
10.0.0.1:80_0_0_0, which is the right one.
"""

from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import hand_over


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    hand_over(prefill, decode, 14, 1)
    before = list(decode.manager.connection_pool)
    dead = world.address[:-1]  # another server, on a port of one digit less
    decode.manager._handle_node_failure(dead)
    after = list(decode.manager.connection_pool)
    return Seen(bool(before) and not after,
                f"{dead} is called dead; the cached addresses of {world.address}, which is alive, "
                f"were {len(before)} and are {len(after)}, and their sockets are closed")


SCRIPT: Final = Script(scene, race="R14", expected="decode keeps the entries of the other server")

if __name__ == "__main__":
    play(SCRIPT)
