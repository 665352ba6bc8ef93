"""Finds the lemmas of a system that still hold for an edit of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import Obligation
from pdproto.check.prove.proving import Proof
from pdproto.check.prove.subject import ProofSubject


def surviving(one: ProofSubject, prove: Callable[[Sequence[Obligation]], Proof]) -> ProofSubject:
    """The subject with only those lemmas that are inductive together (the Houdini algorithm).

    A lemma that the edit breaks, or that reads past an end in it, is false. Assuming it could prove
    false claims, and hide the row that breaks them. prove: decides obligations.
    """
    while one.lemmas:
        proof = prove([o for lemma in one.lemmas for o in one.units[lemma.name]])
        broken = {o.claim.name for o in proof.obligations
                  if o.claim.is_lemma and proof.status(o) is not Status.PROVED}
        if not broken or proof.interrupted:
            return one
        broken |= {lemma.name for lemma in one.lemmas
                   if not broken.isdisjoint(one.meant(lemma.name))}
        kept = tuple(lemma for lemma in one.lemmas if lemma.name not in broken)
        one = replace(one, lemmas=kept, broken=(*one.broken, *sorted(broken)))
    return one
