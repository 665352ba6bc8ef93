"""The HTTP interface of the registry as an OpenAPI 3.1 document: GET /openapi.json.

Its schemas are made from the types that read the requests and write the answers (wire.py).
`OPERATIONS` names each route with the statuses of its answers. Tests hold it to the routes of
app.py (tests/registry/test_openapi.py) and to the answers of a running registry
(tests/property/test_registry_http.py).
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.json import schema_components

from pdproto import __version__
from pdproto.registry.wire import (
    COORDINATES,
    EXCEED,
    OURS,
    Directory,
    FullAnswer,
    Lookup,
    RankAddress,
    Registration,
    Room,
    Rooms,
    Run,
    ServerInfo,
)
from pdproto.runtime.limits import BODY_BYTES_MAX, BODY_S, ROOM_MAX, TOPOLOGY_SIZE_MAX

SCHEMAS: Final = "#/components/schemas/"
SGLANG_INFO: Final = "SglangServerInfo"  # a ServerInfo without our fields


class Answer(NamedTuple):
    """One status of an operation, and its meaning. json: the types of the body; none for text."""

    status: int
    told: str
    json: tuple[Any, ...] = ()


class Operation(NamedTuple):
    """One route. body: the type of the request's body, if it has one. query: its whole numbers.
    names_room: a room may be one more.
    """

    method: str
    path: str
    told: str
    answers: tuple[Answer, ...]
    body: type[msgspec.Struct] | None = None
    query: tuple[str, ...] = ()
    has_head: bool = False
    names_room: bool = False

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods of the route with these answers."""
        return (self.method, "HEAD") if self.has_head else (self.method,)

    @property
    def every_answer(self) -> tuple[Answer, ...]:
        """All answers: also those that every operation has."""
        own = {each.status for each in self.answers}
        common = (each for each in COMMON if each.status not in own)
        return tuple(sorted((*self.answers, *common), key=lambda each: each.status))


COMMON: Final = (
    Answer(400, "the request is no HTTP"),
    Answer(408, f"the body has not come within {BODY_S:g} s"),
    Answer(413, f"the body has more than {BODY_BYTES_MAX:,} bytes"),
    Answer(415, "the body is compressed"),
    Answer(417, "the header Expect wants something else than 100-continue"),
    Answer(504, "the store that registries share is late: ask another registry, or repeat it"),
)
DONE: Final = Answer(200, "done")
WRONG: Final = Answer(400, "the body is no JSON, or a field is wrong: the text names it")
FOREIGN: Final = Answer(403, "the rank is of another member, by the certificate of the client")
NO_RANK: Final = Answer(404, "the server has no such rank")
EMPTY: Final = Answer(503, "no rank has registered")
MISSING: Final = Answer(503, "a rank is missing, or drains: the text names the first one")

OPERATIONS: Final = (
    Operation("PUT", "/route", "register a run of a rank", (
        DONE, WRONG, FOREIGN,
        Answer(409, "the rank contradicts those before it, or its incarnation does not count"),
    ), Registration),
    Operation("DELETE", "/route", "remove a run of a rank",
              (DONE, WRONG, FOREIGN, NO_RANK, EMPTY), Run),
    Operation("GET", "/route", "one rank; the server itself if all four numbers are -1", (
        Answer(200, "the address of the rank, or the server", (RankAddress, SGLANG_INFO)),
        Answer(400, "a number is missing from the query, or is none"), NO_RANK, MISSING,
    ), query=COORDINATES),
    Operation("GET", "/ranks", "the server and all its ranks", (
        Answer(200, "all of them, without the data-parallel ranks that drain and do not have "
                    "the room", (Directory,)),
        Answer(400, "the room is no number"), Answer(425, "no rank has registered"),
        Answer(503, "a rank is missing, or all drain: the text names the first one"),
    ), names_room=True),
    Operation("POST", "/ranks", "the server and some of its ranks", (
        Answer(200, "all that were asked for", (Directory,)), WRONG, NO_RANK,
        Answer(425, "no rank has registered"), MISSING), Lookup),
    Operation("POST", "/keepalive", "a sign of life of a run", (
        DONE, WRONG, FOREIGN, Answer(404, "there is no such rank, or it has no such run"),
        Answer(409, "the run was removed"), EMPTY), Run),
    Operation("POST", "/register_dp_rank", "publish the data-parallel rank of a room", (
        DONE, WRONG, FOREIGN, Answer(503, "no rank has registered, or too many rooms are open"),
    ), Room),
    Operation("POST", "/retire_dp_rank", "remove a room", (
        DONE, WRONG, FOREIGN, Answer(503, "no rank has registered, or too many rooms are open"),
    ), Room),
    Operation("POST", "/query_dp_ranks", "the data-parallel ranks of rooms", (
        Answer(200, "those that are known; a FullAnswer if `full` is set",
               (FullAnswer, dict[str, int])),
        WRONG, Answer(503, "no rank has registered, or too many rooms are open")), Rooms),
    Operation("POST", "/withdraw_dp_ranks", "wait for these rooms no longer",
              (DONE, WRONG, EMPTY), Rooms),
    Operation("GET", "/health", "whether all ranks are registered and agree, and some take new "
                                "requests", (
        Answer(200, "they are"), Answer(503, "they are not: the text says why")), has_head=True),
    Operation("GET", "/metrics", "metrics for Prometheus",
              (Answer(200, "in the text format of Prometheus"),), has_head=True),
    Operation("GET", "/openapi.json", "this document", (
        Answer(200, "an OpenAPI document", (dict[str, Any],)),)),
)


@cache
def encoded() -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(document())


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    kinds = [*dict.fromkeys(_kinds())]
    found, components = schema_components(kinds, ref_template=SCHEMAS + "{name}")
    schemas: dict[Any, Any] = dict(zip(kinds, found, strict=True))
    info = components[ServerInfo.__name__]
    components[SGLANG_INFO] = {
        **info, "title": SGLANG_INFO, "description": "A ServerInfo in SGLang's fields only.",
        "properties": {name: one for name, one in info["properties"].items() if name not in OURS},
        "required": [name for name in info["required"] if name not in OURS],
    }
    schemas[SGLANG_INFO] = {"$ref": SCHEMAS + SGLANG_INFO}
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        for method in each.methods:
            paths.setdefault(each.path, {})[method.lower()] = _operation(each, method, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "pdproto registry", "version": __version__,
                 "description": "The registry of the ranks of one prefill server."},
        "security": [{}, {"cluster": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"cluster": {
                "type": "mutualTLS", "description": "a certificate of the cluster's keys"}},
        },
    }


def _kinds() -> Iterator[Any]:
    """Every type of a body."""
    yield ServerInfo
    for each in OPERATIONS:
        if each.body is not None:
            yield each.body
        yield from (kind for answer in each.answers for kind in answer.json if kind != SGLANG_INFO)


def _operation(each: Operation, method: str, schemas: dict[Any, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "summary": each.told,
        "operationId": f"{method.lower()}_{each.path.strip('/').replace('.', '_')}",
        "responses": {
            str(answer.status): _response(answer, schemas, empty=method == "HEAD")
            for answer in each.every_answer},
    }
    parameters = [
        {"name": name, "in": "query", "required": True, "schema": {
            "type": "integer", "minimum": -1, "exclusiveMaximum": TOPOLOGY_SIZE_MAX}}
        for name in each.query]
    if each.names_room:
        parameters.append({"name": "room", "in": "query", "required": False, "schema": {
            "type": "integer", "minimum": 0, "maximum": ROOM_MAX}})
    if parameters:
        told["parameters"] = parameters
    if each.body is not None:
        told["requestBody"] = {
            "required": True, "content": {"application/json": {"schema": schemas[each.body]}}}
    return told


def _response(answer: Answer, schemas: dict[Any, Any], *, empty: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"description": answer.told}
    if not empty:
        kind = "application/json" if answer.json else "text/plain"
        told["content"] = {kind: {"schema": _schema(answer.json, schemas)}}
    if answer.status == 409:
        told["headers"] = {EXCEED: {
            "description": "the run counts under an incarnation above this one",
            "schema": {"type": "integer"}}}
    return told


def _schema(kinds: Iterable[Any], schemas: dict[Any, Any]) -> dict[str, Any]:
    options = [schemas[kind] for kind in kinds]
    if not options:
        return {"type": "string"}
    return options[0] if len(options) == 1 else {"anyOf": options}
