"""The trace of a bootstrap server of SGLang: each registration, and each look-up.

The server has one thread, so that a request and its line are one step.
"""

from collections.abc import Callable
from typing import Any, Final

from lab.peers.sglang_registry import REGISTRY
from lab.sglang_0_5_23.ledger import wrap
from pdproto.runtime.trace import Lines, TraceTarget

SIZES: Final = ("attn_tp_size", "attn_cp_size", "pp_size", "page_size", "kv_cache_dtype")
OK: Final = 200
NOT_FOUND: Final = 404
UNREADY: Final = 503


def rank_name(dp: Any, cp: Any, tp: Any, pp: Any) -> str:
    return f"dp{dp} cp{cp} tp{tp} pp{pp}"


class RegistryTrace:
    """Attached to a bootstrap server before the first registration, it writes its trace."""

    def __init__(self, server: Any, target: TraceTarget) -> None:
        self.server: Final = server
        self._lines: Final = Lines(f"{server.host}:{server.port}", target)
        self._rows: Final = {row.name: str(row.on) for row in REGISTRY.rows}
        self._names: list[str] = []
        self._said: dict[str, Any] = {}
        wrap(server, "_handle_route_put", self._put)
        wrap(server, "_handle_route_get", self._get)

    async def _put(self, original: Callable[..., Any], request: Any) -> Any:
        told = await request.json()
        before = self.server._registered_count
        first = {name: getattr(self.server, name) for name in SIZES}
        answer = await original(request)
        if answer.status != OK:
            return answer
        group = "attn" if told["system_dp_size"] == 1 else "system"
        name = rank_name(told[f"{group}_dp_rank"], told["attn_cp_rank"], told["attn_tp_rank"],
                         told["pp_rank"])
        is_new = name not in self._names
        self._names += [name] * is_new
        expected = self._expected()
        if before >= expected:
            self._row("record_more", p=name)
        elif any(first[size] not in (None, told[size]) for size in SIZES):
            self._row("record_other", p=name, n=before)
        else:
            self._row("record" if is_new else "record_again", p=name, n=before)
        return answer

    async def _get(self, original: Callable[..., Any], request: Any) -> Any:
        answer = await original(request)
        query = request.query
        keys = ("prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank")
        if not all(query.get(key) for key in keys) or not self._names:
            return answer
        name = rank_name(*(query[key] for key in keys))
        if name == rank_name(-1, -1, -1, -1):
            self._row("answer_topology" if answer.status == OK else "answer_not_ready")
            return answer
        if name not in self._names:
            self._names.append(name)
        rows = {OK: "locate", NOT_FOUND: "answer_unknown", UNREADY: "answer_unready"}
        self._row(rows[answer.status], p=name)
        return answer

    def _expected(self) -> int:
        server = self.server
        return int(server.dp_size * server.attn_cp_size * server.attn_tp_size * server.pp_size)

    def _row(self, name: str, **given: Any) -> None:
        counts = {"Source": list(self._names), "Count": self._expected()}
        before = []
        if counts != self._said:
            before = [{"elements" if self._said else "begins": counts}]
            self._said = counts
        line = {"row": name, "on": self._rows[name], "with": given}
        self._lines.put(REGISTRY.machine.name, 1, [*before, line])
