"""The state of a node, as the ports for operators tell it (operator_port.py)."""

import http.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from pdproto.net.hosts import split
from pdproto.runtime import checked
from pdproto.transport.answers import AnswerInTime
from pdproto.transport.open_handoffs import OpenHandoffs

TIMEOUT_S: Final = 3.0
ANSWER_BYTES_MAX: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The state of one node at one time.

    at: the time of the request, in seconds of the monotonic clock. problem: why the node is not
    ready, or does not answer; "" if it is ready. numbers: its metrics by name.
    """

    address: str
    at: float
    problem: str
    numbers: Mapping[str, float]
    told: OpenHandoffs | None

    def sum(self, names: Sequence[str]) -> float:
        return sum(self.numbers.get(name, 0.0) for name in names)

    def rate(self, name: str, before: "NodeStatus | None") -> float | None:
        """The increase of a counter per second since the status before; None without one."""
        if before is None or name not in self.numbers or name not in before.numbers:
            return None
        return max(0.0, self.numbers[name] - before.numbers[name]) / (self.at - before.at)


def look(address: str, stuck: int) -> NodeStatus:
    """Ask a node for its state. stuck: how many hand-overs to list."""
    address, stuck = checked.text("address", address), checked.whole("stuck", stuck)
    at = monotonic()
    try:
        _, metrics = _get(address, "/metrics")
        _, handoffs = _get(address, f"/debug/handoffs?limit={stuck}")
        told = msgspec.json.decode(handoffs, type=OpenHandoffs)
        return NodeStatus(address, at, told.problem, _numbers(metrics.decode()), told)
    except (OSError, http.client.HTTPException, msgspec.MsgspecError, ValueError) as error:
        return NodeStatus(address, at, f"no answer: {error}", {}, None)


def _get(address: str, path: str) -> tuple[int, bytes]:
    host, port = split(address)
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    connection.response_class = AnswerInTime
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(ANSWER_BYTES_MAX)
        if answer.status != 200:
            raise ValueError(f"{path} answers {answer.status}: is it a node's operator's port?")
        return answer.status, body
    finally:
        connection.close()


def _numbers(text: str) -> dict[str, float]:
    """The samples by name. Samples of one name with different labels are added up."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found
