"""The ranks of a prefill server that send to a decode rank, and the other ranks they send to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pdproto.items.shares import TpRank


@dataclass(frozen=True, slots=True)
class DecodeRank:
    """A decode worker. place: in its tensor parallelism. stage: in its pipeline. stages: the number
    of stages. group: a name that all workers of the server share.
    """

    place: TpRank
    stage: int = 0
    stages: int = 1
    group: str = "decode"

    def name(self, tensor: int | None = None, stage: int | None = None) -> str:
        """The name of its node, or of the node of another worker of the server."""
        tensor = self.place.rank if tensor is None else tensor
        return f"{self.group}-pp{self.stage if stage is None else stage}-tp{tensor}"


@dataclass(frozen=True, slots=True)
class Feed:
    """The sources of a decode rank: their endpoints, by name. sinks: the names of all decode ranks
    to which the same sources send.
    """

    sources: Mapping[str, str]
    sinks: tuple[str, ...]


Ranks = Mapping[tuple[int, int], tuple[str, str]]
FIRST: Final = 0


def sizes(ranks: Ranks) -> tuple[int, int]:
    """The sizes of the pipeline and of the tensor parallelism. Raises ValueError if a rank is
    missing.
    """
    if not ranks:
        raise ValueError("a prefill server without ranks")
    stages, tensors = (1 + max(key[axis] for key in ranks) for axis in (0, 1))
    if len(ranks) != stages * tensors:
        raise ValueError(f"{len(ranks)} ranks of prefill, of a pipeline of {stages} and a tensor "
                         f"parallelism of {tensors}: want all {stages * tensors}")
    return stages, tensors


def feed(us: DecodeRank, ranks: Ranks) -> Feed:
    """The sources of this rank. ranks: of prefill: the name and the endpoint of each, by stage and
    place. Raises ValueError for a server that does not fit.
    """
    stages, size = sizes(ranks)
    partners = us.place.partners(size)
    sources = {}
    for stage in _feeding(us, stages):
        for tensor in partners:
            name, endpoint = ranks[stage, tensor]
            sources[name] = endpoint
    fed = TpRank(size, partners[FIRST]).partners(us.place.size)
    return Feed(sources, tuple(us.name(tensor) for tensor in fed))


def _feeding(us: DecodeRank, stages: int) -> Sequence[int]:
    """The stages of prefill's pipeline that have this rank's layers."""
    if us.stages == 1:
        return range(stages)
    if us.stages != stages:
        raise ValueError(f"pipeline of {stages} stages there and {us.stages} here: want as many, "
                         f"or 1 at decode")
    return range(us.stage, us.stage + 1)
