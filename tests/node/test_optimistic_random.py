"""Optimistic prefill when anything may happen at any time, and both sides are short of room."""

import io
import random
from pathlib import Path

import pytest

from pdproto.check.trace.verify import verify
from pdproto.node.optimistic.prefill import OptimisticPrefill
from pdproto.node.optimistic.record import OptimisticSettings
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.spec.handoff.attempts import Stage
from pdproto.spec.handoff.optimistic_retracted import RETRACTED
from pdproto.spec.handoff.poll import KVPoll
from tests.node.prefills import FakeSender, Toy

REQUESTS = 40
TURNS_MAX = 20_000


class World:
    """A server short of slots and running slots, and sinks with pages for two requests at a time.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - nothing secret
        settings = OptimisticSettings(slots=self.random.randint(1, 4),
                                      running_slots=self.random.randint(1, 3),
                                      retries=self.random.randint(0, 3), bootstrap_timeout_s=1e9,
                                      force_retry_probability=self.random.choice((0.0, 0.3)))
        self.told = io.BytesIO()
        trace = SharedTrace("prefill", self.told)
        self.toy = Toy(OptimisticPrefill(settings, trace=trace), computes=False)
        self.senders: dict[str, FakeSender] = {}
        self.published: set[str] = set()

    def anything(self) -> None:
        """One event of the world outside."""
        what = self.random.random()
        if what < 0.2 and len(self.senders) < REQUESTS:
            name = f"r{len(self.senders)}"
            self.senders[name] = FakeSender()
            self.toy.submit(name, self.senders[name], chunks=self.random.randint(1, 5),
                            retracted=self.random.random() < 0.1)
        elif what < 0.4:
            self._publish()
        elif what < 0.6:
            self._land()
        elif what < 0.62:
            self._fail()
        elif what < 0.85:
            self._compute()
        self.toy.turn()

    def _publish(self) -> None:
        """The sink gives its pages to any request, not to the first."""
        wanting = [name for name, sender in self.senders.items()
                   if sender.word is KVPoll.BOOTSTRAPPING]
        if wanting and len(self.published) < 2:
            name = self.random.choice(wanting)
            self.senders[name].word = KVPoll.WAITING_FOR_INPUT
            self.published.add(name)

    def _land(self) -> None:
        for request in list(self.toy.prefill._steps.stages.at[Stage.SENDING]):
            self.senders[request.id].word = KVPoll.SUCCESS

    def _fail(self) -> None:
        """A request fails, on either side."""
        requests = [r for r in self.toy.prefill._steps._requests.values()
                    if r.stage is not Stage.SUCCESS]
        if not requests:
            return
        request = self.random.choice(requests)
        if self.random.random() < 0.5:
            self.toy.prefill.abort(request)
        elif request.poll() is not KVPoll.SUCCESS:
            self.senders[request.id].word = KVPoll.FAILED

    def _compute(self) -> None:
        self.toy.obey()
        self.random.shuffle(self.toy.under_way)
        later, self.toy.under_way = self.toy.under_way[1:], self.toy.under_way[:1]
        self.toy.compute()
        self.toy.under_way += later

    def settle(self) -> None:
        """The sink takes its pages back from whoever has ended."""
        self.published = {name for name in self.published
                          if self.senders[name].word is KVPoll.WAITING_FOR_INPUT}


@pytest.mark.parametrize("seed", range(40))
def test_m5_4_everything_ends_and_everything_comes_back(seed: int, tmp_path: Path) -> None:
    world = World(seed)
    for _ in range(TURNS_MAX):
        world.anything()
        world.settle()
        if len(world.senders) == REQUESTS and world.toy.idle():
            break
    assert world.toy.idle(), world.toy.prefill
    ended = [name for what, name in world.toy.happened if what == "END"]
    assert sorted(ended) == sorted(world.senders), "each ends once"
    attempts = world.toy.prefill.settings.attempts
    for name in world.senders:
        retries = world.toy.happened.count(("DROP", name))
        assert retries <= attempts + 1, "a pass for each attempt, and one that was forced"
    for name, output in world.toy.outputs.items():
        assert output == world.toy.sent[name][-1]
        assert len(world.toy.sent[name]) == len(world.toy.prompts[name])
    path = tmp_path / "prefill.jsonl"
    path.write_bytes(world.told.getvalue())
    verified = verify(RETRACTED, [path])
    assert verified.is_explained, verified
    assert verified.rows["submit"] + verified.rows.get("submit_retracted", 0) == REQUESTS
