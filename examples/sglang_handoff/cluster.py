"""The processes of a drill, and its router, which names each room to both servers."""

import multiprocessing
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any

from examples.sglang_handoff.load import START_S, Load, Outcome, Seat, live

Body = Callable[[Seat, Load, "Connection[Any, Any]"], None]


def run(load: Load, seconds: float, body: Body = live) -> dict[str, Outcome]:
    """Run all ranks to their end, by name. seconds: the longest time without the end of a
    hand-over. body: the life of a rank's process, if it does more than the default.

    Raises TimeoutError.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["examples.sglang_handoff.preload"])
    pipes: dict[Seat, Any] = {}
    processes = []
    try:
        for seat in load.seats:
            pipes[seat], theirs = context.Pipe()
            process = context.Process(target=body, args=(seat, load, theirs), daemon=True)
            process.start()
            processes.append(process)
            theirs.close()
        for seat, pipe in pipes.items():
            _await(seat, pipe)
        try:
            _route(load, pipes, seconds)
        except BrokenPipeError:
            raise TimeoutError("a rank has ended: what it said is above") from None
        return {str(seat): _outcome(seat, pipe) for seat, pipe in pipes.items()}
    finally:
        for process in processes:
            process.join(5)
            process.kill()


def _await(seat: Seat, pipe: "Connection[Any, Any]") -> None:
    try:
        started = pipe.poll(START_S) and pipe.recv() == "ready"
    except EOFError:
        started = False
    if not started:
        raise TimeoutError(f"{seat} did not start: what it said is above")


def _route(load: Load, pipes: dict[Seat, Any], seconds: float) -> None:
    """Keep so many rooms under way at once, until there are no more."""
    waiting: Counter[int] = Counter()  # decode ranks that a room waits for
    talking: dict[Any, Seat] = {
        pipe: seat for seat, pipe in pipes.items()
        if seat.side == "decode" or (load.pp > 1 and seat.pp == 0)
    }
    upcoming, heard = 1, monotonic()
    while upcoming <= load.requests or waiting:
        fresh = list(range(upcoming, min(upcoming + load.in_flight - len(waiting),
                                         load.requests + 1)))
        if fresh:
            for seat, pipe in pipes.items():
                pipe.send([room for room in fresh
                           if seat.side == "decode" or seat.dp == load.runs(room)])
            waiting.update(dict.fromkeys(fresh, load.decode_tp * load.decode_pp))
            upcoming += len(fresh)
        for ready in wait(list(talking), timeout=seconds):
            heard, seat = monotonic(), talking[ready]
            try:
                room: int = pipes[seat].recv()
            except EOFError:
                raise TimeoutError(f"{seat} has ended: what it said is above") from None
            if seat.side == "prefill":
                _relay(pipes, seat, room)
                continue
            waiting[room] -= 1
            if not waiting[room]:
                del waiting[room]
        if monotonic() - heard > seconds:
            raise TimeoutError(f"rooms {sorted(waiting)[:9]} of {load.requests} have not ended, "
                               f"and no other has within {seconds:g} s")
    for pipe in pipes.values():
        pipe.send(None)


def _relay(pipes: dict[Seat, Any], first: Seat, room: int) -> None:
    """Tell the later stages of a pipeline that the first one begins a room."""
    place = first.dp, first.cp, first.tp
    for seat, pipe in pipes.items():
        if seat.side == "prefill" and seat.pp and (seat.dp, seat.cp, seat.tp) == place:
            pipe.send([-room])


def _outcome(seat: Seat, pipe: "Connection[Any, Any]") -> Outcome:
    try:
        outcome = pipe.recv() if pipe.poll(60) else None
    except EOFError:
        outcome = None
    if not isinstance(outcome, Outcome):
        raise TimeoutError(f"{seat} did not end")
    return outcome
