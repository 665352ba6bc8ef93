"""What the tests of a running registry send to it, and wait for."""

import http.client
import json
from typing import Any

from pdproto.registry.app import RegistryServer
from pdproto.registry.wire import Registration
from pdproto.runtime.versions import VERSION
from tests.waiting import PATIENCE_S


def prefill(rank: int = 0, *, of: int = 2, run: int | None = 1, **other: Any) -> Registration:
    """One of `of` tensor ranks."""
    fields = {"rank_ip": "10.0.0.1", "rank_port": 5000 + rank, "version": VERSION, **other}
    return Registration(attn_tp_size=of, attn_tp_rank=rank, incarnation=run, **fields)


def group(rank: int, *, of: int = 2, run: int | None = 1, **other: Any) -> Registration:
    """One of `of` data-parallel ranks of one process each."""
    return prefill(0, of=1, run=run, attn_dp_size=of, attn_dp_rank=rank, **other)


def sglang(server: RegistryServer, method: str, path: str, body: object = None) -> tuple[int, str]:
    """What SGLang's own clients do: plain JSON, no fields of ours."""
    sent = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, sent)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def is_ready(server: RegistryServer) -> bool:
    return server.app.registry.ready
