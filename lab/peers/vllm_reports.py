"""vLLM's scheduler and the ends of KV transfers: the first one that ends frees the request.

A description of `_update_from_kv_xfer_finished` of 0.32.0, with a connector that both loads and
stores a request's KV (MultiConnector). A request that is aborted while transfers run keeps its
blocks: one flag marks it. The first transfer that ends removes the request from the scheduler's
map, even if another still runs. The end of the second finds no request: an assertion fails, and the
engine dies with all its requests.
"""

from typing import Final

from pdproto.spec.language import (
    AddClause,
    AddRow,
    Always,
    Call,
    Configuration,
    Machine,
    OnRow,
    Row,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    auto,
    edited,
)


class Request(Sort, prefix="r"):
    """A request."""


class Engine(State):
    """EngineCore."""

    ALIVE = auto()
    DEAD = auto()


class Status(State):
    """A request in the map of the scheduler."""

    NEW = auto()
    LOADING = auto()  # WAITING_FOR_REMOTE_KVS
    RUNNING = auto()
    HELD = auto()  # the request has ended, and keeps its blocks
    GONE = auto()


class Transfer(State):
    """A load or a store, which the worker reports once."""

    NONE = auto()
    UNDER_WAY = auto()
    ENDED = auto()
    REPORTED = auto()


r = Request("r")

scheduler = Machine("scheduler")
worker = Machine("worker", world=True)
engine = scheduler.function("engine", Engine)
status = scheduler.function("status", Status, Request)
loading = scheduler.function("loading", Transfer, Request)
storing = scheduler.function("storing", Transfer, Request)
loading.shared_with(worker, writes=(Transfer.ENDED,))
storing.shared_with(worker, writes=(Transfer.ENDED,))

PENDING: Final = (Transfer.UNDER_WAY, Transfer.ENDED)
LOAD_ENDED: Final = loading(r) == Transfer.ENDED
STORE_ENDED: Final = storing(r) == Transfer.ENDED
TAKE_LOAD: Final = loading(r).to(Transfer.REPORTED)
TAKE_STORE: Final = storing(r).to(Transfer.REPORTED)

SCHEDULER: Final = Table(scheduler, state=engine, rows=(
    Row("load", on=Call("add", r), at=Engine.ALIVE, when=status(r) == Status.NEW,
        do=[status(r).to(Status.LOADING), loading(r).to(Transfer.UNDER_WAY)]),
    Row("store", on=Call("store", r), at=Engine.ALIVE,
        when=[status(r).among(Status.LOADING, Status.RUNNING), storing(r) == Transfer.NONE],
        do=[storing(r).to(Transfer.UNDER_WAY)]),
    Row("abort", on=Call("abort", r), at=Engine.ALIVE,
        when=[status(r).among(Status.LOADING, Status.RUNNING),
              loading(r).among(*PENDING) | storing(r).among(*PENDING)],
        do=[status(r).to(Status.HELD)], why="delay_free_blocks"),
    Row("abort_idle", on=Call("abort", r), at=Engine.ALIVE,
        when=[status(r) == Status.RUNNING, ~loading(r).among(*PENDING),
              ~storing(r).among(*PENDING)], do=[status(r).to(Status.GONE)]),
    Row("begin", at=Engine.ALIVE, when=[LOAD_ENDED, status(r) == Status.LOADING],
        choose=(r,), do=[TAKE_LOAD, status(r).to(Status.RUNNING)]),
    Row("note_store", at=Engine.ALIVE, choose=(r,),
        when=[STORE_ENDED, status(r).among(Status.LOADING, Status.RUNNING)], do=[TAKE_STORE]),
    Row("free_after_load", at=Engine.ALIVE, choose=(r,),
        when=[LOAD_ENDED, status(r) == Status.HELD], do=[TAKE_LOAD, status(r).to(Status.GONE)]),
    Row("free_after_store", at=Engine.ALIVE, choose=(r,),
        when=[STORE_ENDED, status(r) == Status.HELD], do=[TAKE_STORE, status(r).to(Status.GONE)]),
    Row("miss_loaded", at=Engine.ALIVE, to=Engine.DEAD, choose=(r,),
        when=[LOAD_ENDED, status(r) == Status.GONE], do=[TAKE_LOAD],
        why="assert req_id in self.requests"),
    Row("miss_stored", at=Engine.ALIVE, to=Engine.DEAD, choose=(r,),
        when=[STORE_ENDED, status(r) == Status.GONE], do=[TAKE_STORE],
        why="assert req_id in self.requests"),
))

WORKER: Final = Table(worker, rows=(
    Row("end_load", choose=(r,), when=loading(r) == Transfer.UNDER_WAY,
        do=[loading(r).to(Transfer.ENDED)]),
    Row("end_store", choose=(r,), when=storing(r) == Transfer.UNDER_WAY,
        do=[storing(r).to(Transfer.ENDED)]),
))

SYSTEM: Final = System(
    "vllm-reports",
    "vLLM 0.32.0's scheduler, described as its code does it: one flag for a load and a store.",
    tables=(SCHEDULER, WORKER),
    properties=(
        Always("the_engine_lives", engine() == Engine.ALIVE,
               why="a client that leaves does not end the requests of the others"),
        OnRow("no_blocks_are_freed_under_a_store", "free_after_load",
              storing(r) != Transfer.UNDER_WAY),
        OnRow("no_blocks_are_freed_under_a_load", "free_after_store",
              loading(r) != Transfer.UNDER_WAY),
        Sometimes("a_request_is_freed", status(r) == Status.GONE),
    ),
    final=engine() == Engine.ALIVE,
    configurations={"default": Configuration({Request: 1})},
)

# 56089 (a draft): the scheduler keeps the pending transfers of each direction; the last one frees.
LAST_FREES: Final = edited(
    SYSTEM, "vllm-reports-last-frees",
    AddClause("free_after_load", ~storing(r).among(*PENDING)),
    AddClause("free_after_store", ~loading(r).among(*PENDING)),
    AddRow(scheduler, Row("note_load_held", at=Engine.ALIVE, choose=(r,),
        when=[LOAD_ENDED, status(r) == Status.HELD, storing(r).among(*PENDING)],
        do=[TAKE_LOAD])),
    AddRow(scheduler, Row("note_store_held", at=Engine.ALIVE, choose=(r,),
        when=[STORE_ENDED, status(r) == Status.HELD, loading(r).among(*PENDING)],
        do=[TAKE_STORE])),
    about="vLLM's scheduler where the last transfer that ends frees the request (#56089).",
)
