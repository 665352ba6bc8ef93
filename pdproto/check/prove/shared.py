"""Proofs of shards (check/shards.py): as values of a file, and put together again.

An obligation is named by the digest of its content. All obligations of one row are one task, which
belongs to one shard.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace

from pdproto.check.identity import content
from pdproto.check.prove.digests import Digests
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.obligations import Obligation
from pdproto.check.prove.proving import CUTOFF, EngineAnswer, Proof
from pdproto.check.prove.subject import ProofSubject
from pdproto.ground.structure import Structure


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    """An EngineAnswer, whose obligation is named by its digest."""

    obligation: str
    engine: str
    judgement: Judgement
    seconds: float
    instead_of: str


@dataclass(frozen=True, slots=True)
class SharedProof:
    """The proof of the rows of one system that belong to a shard. broken: see ProofSubject. doubts:
    see Proof.
    """

    system: str
    answers: tuple[SharedAnswer, ...]
    axioms: Judgement
    seconds: float
    broken: tuple[str, ...]
    doubts: dict[str, str]


def task_of(one: ProofSubject, obligation: Obligation) -> str:
    """The name of the task to which the obligation belongs."""
    return f"{one.system.name} {obligation.scope}"


def digest_of(subjects: Iterable[ProofSubject]) -> str:
    """A digest of all tables, properties, lemmas and rankings, with their names."""
    structure = Structure()
    return structure.of(tuple(
        (content(one.system), {field.name: getattr(one, field.name) for field in fields(one)
                               if field.name != "system"})
        for one in subjects
    )).hex()


def shared_proof(one: ProofSubject, proof: Proof) -> SharedProof:
    """The proof as a value of a file."""
    digests = Digests(one.system)
    answers = tuple(
        SharedAnswer(digests.of(answer.obligation, answer.engine), answer.engine,
                     answer.judgement, answer.seconds, answer.instead_of)
        for answer in proof.outcomes
    )
    return SharedProof(one.system.name, answers, proof.axioms, proof.seconds, one.broken,
                       {**proof.doubts})


def merged_proof(
    one: ProofSubject, wanted: Sequence[str], shared: Iterable[SharedProof],
    lacking: Callable[[Iterable[str]], str],
) -> tuple[ProofSubject, Proof]:
    """The subject, and its proof out of those of the shards.

    wanted: as of `ProofSubject.obligations`. lacking: says why tasks have no answer; their
    obligations are UNKNOWN. A lemma that one shard could not prove is broken for all.
    """
    mine = [proof for proof in shared if proof.system == one.system.name]
    broken = tuple(sorted({name for proof in mine for name in proof.broken}))
    one = replace(one, lemmas=tuple(lemma for lemma in one.lemmas if lemma.name not in broken),
                  broken=broken)
    digests = Digests(one.system)
    known: dict[str, SharedAnswer] = {answer.obligation: answer for proof in mine
                                      for answer in proof.answers}
    engines = sorted({answer.engine for answer in known.values()}) or [CUTOFF]
    outcomes: list[EngineAnswer] = []
    for obligation in one.obligations(wanted):
        asked = (digests.of(obligation, engine) for engine in engines)
        found = [known[digest] for digest in asked if digest in known]
        outcomes += (
            EngineAnswer(obligation, answer.engine, answer.judgement, answer.seconds,
                         instead_of=answer.instead_of) for answer in found)
        if not found:
            why = lacking([task_of(one, obligation)])
            unknown = Judgement(Status.UNKNOWN, why)
            outcomes.append(EngineAnswer(obligation, engines[0], unknown, 0.0))
    doubtful = [proof.axioms for proof in mine if proof.axioms.status is not Status.PROVED]
    axioms = (doubtful or [proof.axioms for proof in mine]
              or [Judgement(Status.UNKNOWN, "no shard has asked")])[0]
    seconds = sum(proof.seconds for proof in mine)
    doubts = {name: why for proof in mine for name, why in proof.doubts.items()}
    return one, Proof(one.system.name, tuple(outcomes), seconds, axioms, doubts=doubts)
