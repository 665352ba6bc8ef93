"""Which ranks of a prefill server send to a rank of decode, and which others they send to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pdproto.items.shares import Place


@dataclass(frozen=True, slots=True)
class Rank:
    """A worker of decode, in its pipeline and in its tensor parallelism. stages: of the pipeline.
    group: the name that all workers of the server share.
    """

    place: Place
    stage: int = 0
    stages: int = 1
    group: str = "decode"

    def name(self, tensor: int | None = None, stage: int | None = None) -> str:
        """Of its node, or of that of another worker of the server."""
        tensor = self.place.rank if tensor is None else tensor
        return f"{self.group}-pp{self.stage if stage is None else stage}-tp{tensor}"


@dataclass(frozen=True, slots=True)
class Feed:
    """Who sends to a rank. sources: where each listens, by its name. sinks: the names of all ranks
    of decode that the same sources send to.
    """

    sources: Mapping[str, str]
    sinks: tuple[str, ...]


Ranks = Mapping[tuple[int, int], tuple[str, str]]
FIRST: Final = 0


def sizes(ranks: Ranks) -> tuple[int, int]:
    """Stages, and ranks of the tensor parallelism. Raises ValueError where one is missing."""
    if not ranks:
        raise ValueError("a prefill server without ranks")
    stages, tensors = (1 + max(key[axis] for key in ranks) for axis in (0, 1))
    if len(ranks) != stages * tensors:
        raise ValueError(f"{len(ranks)} ranks of prefill, of a pipeline of {stages} and a tensor "
                         f"parallelism of {tensors}: want all {stages * tensors}")
    return stages, tensors


def feed(us: Rank, ranks: Ranks) -> Feed:
    """Who sends to this rank. ranks: of prefill, by stage and place, each with its name and where
    it listens. Raises ValueError for a server that does not fit.
    """
    stages, size = sizes(ranks)
    partners = us.place.partners(size)
    sources = {}
    for stage in _feeding(us, stages):
        for tensor in partners:
            name, endpoint = ranks[stage, tensor]
            sources[name] = endpoint
    fed = Place(size, partners[FIRST]).partners(us.place.size)
    return Feed(sources, tuple(us.name(tensor) for tensor in fed))


def _feeding(us: Rank, stages: int) -> Sequence[int]:
    """The stages of prefill's pipeline that have this rank's layers."""
    if us.stages == 1:
        return range(stages)
    if us.stages != stages:
        raise ValueError(f"pipeline of {stages} stages there and {us.stages} here: want as many, "
                         f"or 1 at decode")
    return range(us.stage, us.stage + 1)
