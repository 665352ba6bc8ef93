"""`python -m lab study force-query` over real processes (MISSION row M2.4): a few requests.

What is counted holds on any machine; how long it takes depends on the machine, and is not asked.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from lab.__main__ import main
from lab.sim.study import percentile
from lab.study import query
from lab.study.lanes import Measured, measure
from lab.study.rooms import PublishedRooms, Routing, SoughtRooms
from pdproto.registry.app import RegistryServer

REQUESTS = 10


def test_m2_4_the_rule_costs_no_call_and_a_forced_query_at_least_two(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[Measured] = []

    def kept(*arguments: Any, **options: Any) -> list[Measured]:
        said.extend(measure(*arguments, **options))
        return said

    monkeypatch.setattr(query, "SETTINGS", query.SETTINGS[1:])
    monkeypatch.setattr(query, "measure", kept)
    numbers = tmp_path / "study.json"
    assert main(["study", "force-query", "--quiet", "--requests", str(REQUESTS), "--json",
                 str(numbers)]) == 0
    (row,), (measured,) = json.loads(numbers.read_text())["rows"], said
    assert row["rule"]["calls"] == 0.0
    assert measured.with_it.computed.told == REQUESTS, "every room is published once"
    assert row["forced"]["calls"] >= 2.0, "and asked for"
    for name, ran in (("rule", measured.without), ("forced", measured.with_it)):
        seconds = sorted(ran.computed.first_sent_s.values())
        assert len(seconds) == REQUESTS
        assert row[name]["median_s"] == percentile(seconds, 0.5) > 0.001, "a chunk takes 1 ms"
        assert row[name]["p99_s"] == seconds[-1]


def test_m2_4_a_published_room_is_found_and_a_room_on_the_wrong_rank_fails() -> None:
    with RegistryServer() as server:
        routing = Routing(f"{server.host}:{server.port}", force_query=True)
        published, sought = PublishedRooms(routing), SoughtRooms(routing)
        assert not sought.found(6), "nobody has published it"
        assert published.put(6) == 1
        assert sought.found(6)
        assert sought.asked == 2
        published.close()
        sought.close()
    with RegistryServer() as server:
        routing = Routing(f"{server.host}:{server.port}", force_query=False)
        published, sought = PublishedRooms(routing), SoughtRooms(routing)
        assert sought.found(6)
        assert published.put(6) == sought.asked == 0
        with pytest.raises(RuntimeError, match="room 7 was put on data-parallel rank 0"):
            published.put(7)
        published.close()
        sought.close()
