"""Which lemmas of a system still hold of an edit of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import Obligation
from pdproto.check.prove.proving import Proof
from pdproto.check.prove.subject import ProofSubject


def surviving(one: ProofSubject, prove: Callable[[Sequence[Obligation]], Proof]) -> ProofSubject:
    """The subject with those of its lemmas that are inductive together, after Houdini.

    A lemma that the edit breaks would prove what is false, and hide at which row it is broken.
    """
    while one.lemmas:
        proof = prove(one.obligations([lemma.name for lemma in one.lemmas]))
        broken = {o.claim.name for o in proof.obligations
                  if o.claim.is_lemma and proof.status(o) is not Status.PROVED}
        if not broken or proof.interrupted:
            return one
        kept = tuple(lemma for lemma in one.lemmas if lemma.name not in broken)
        one = replace(one, lemmas=kept, broken=(*one.broken, *sorted(broken)))
    return one
