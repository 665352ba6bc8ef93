"""Answers of one server without disaggregation, kept in a file, and how others compare with them.

Tokens are to be equal. Log probabilities are to be equal within LOGPROB: a processor's matrix
product rounds otherwise for another batch size and another alignment of its operands, and which
requests share a batch depends on their timing. One wrong page of a token moves them by hundredths.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from examples.servers.serving import Server
from tests.servers.load import Answer, Ask, Leave, Through, Way, nobody, send

LOGPROB: Final = 1e-3  # the largest difference seen between two runs of the same server is 2e-5


@dataclass(frozen=True, slots=True)
class Comparison:
    """wrong: of those that were answered in full, a line each. largest: difference of logprobs."""

    full: int
    equal: int
    same_bits: int
    largest: float
    wrong: tuple[str, ...]


class Starts(Protocol):
    """What starts and ends servers."""

    def start(self, name: str, model: Path, flags: Sequence[str], /) -> Server: ...

    def end(self, *servers: Server | None) -> None: ...


class Reference:
    """Of one model. A server runs only while an answer is missing. way: to ask it."""

    def __init__(
        self, servers: Starts, folder: Path, flags: Sequence[str],
        way: Callable[[str], Way] = Through,
    ) -> None:
        self._servers, self._model, self._flags = servers, folder, flags
        self._way = way
        weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:12]
        self._path = folder.parent / f"reference-{folder.name}-{weights}.json"
        self._known: dict[str, tuple[list[int], list[float]]] = (
            json.loads(self._path.read_text()) if self._path.exists() else {})

    def ensure(self, wanted: Sequence[Ask]) -> None:
        missing = [ask for ask in wanted if ask.key not in self._known]
        if not missing:
            return
        server = self._servers.start(f"reference-{self._model.name}", self._model, self._flags)
        try:
            server.wait_healthy()
            answers = send(self._way(server.url), missing, in_flight=16, seconds=300.0)
        finally:
            self._servers.end(server)
        for ask, answer in zip(missing, answers, strict=True):
            if not answer.is_full:
                raise RuntimeError(f"the server without disaggregation failed: {answer.error}")
            self._known[ask.key] = (answer.tokens, answer.logprobs)
        self._path.write_text(json.dumps(self._known))

    def check(
        self, way: Way, wanted: Sequence[Ask], *, in_flight: int, seconds: float = 120.0,
        leave: Leave = nobody, about: Callable[[], object] = str,
    ) -> tuple[Comparison, int]:
        """Every client that stays has the answer of one server. Returns also how many have left.

        leave: which clients leave. about: the servers, for the error.
        """
        answers = send(way, wanted, in_flight=in_flight, seconds=seconds, leave=leave)
        return self.require_right(wanted, answers, about), sum(answer.left for answer in answers)

    def require_right(
        self, wanted: Sequence[Ask], answers: Sequence[Answer], about: Callable[[], object] = str
    ) -> Comparison:
        """Every answer has come that a client has stayed for, and is right."""
        failed = Counter(answer.error or "hung" for answer in answers
                         if not (answer.is_full or answer.left))
        assert not failed, (f"{failed.total()} of {len(wanted)} failed, "
                            f"{failed.most_common(1)[0]}; {about()}")
        found = self.compare(wanted, answers)
        assert not found.wrong, f"{len(found.wrong)} of {len(wanted)} are wrong, {found.wrong[0]}"
        return found

    def tokens(self, ask: Ask) -> list[int]:
        """Of an answer that is known."""
        return self._known[ask.key][0]

    def compare(self, wanted: Sequence[Ask], answers: Sequence[Answer]) -> Comparison:
        """Of the answers that are full."""
        full = equal = same_bits = 0
        largest, wrong = 0.0, []
        for number, (ask, answer) in enumerate(zip(wanted, answers, strict=True)):
            if not answer.is_full:
                continue
            full += 1
            tokens, logprobs = self._known[ask.key]
            apart = _apart(logprobs, answer.logprobs)
            if answer.tokens != tokens:
                wrong.append(f"request {number} of {len(ask.prompt)} tokens: "
                             f"{answer.tokens}, want {tokens}")
            elif apart > LOGPROB:
                wrong.append(f"request {number} of {len(ask.prompt)} tokens: log probabilities "
                             f"{apart:.2g} apart: {answer.logprobs}, want {logprobs}")
            else:
                equal += 1
                largest = max(largest, apart)
                same_bits += apart == 0
        return Comparison(full, equal, same_bits, largest, tuple(wrong))


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    if len(one) != len(other):
        return float("inf")
    return max((abs(a - b) for a, b in zip(one, other, strict=True)), default=0.0)
