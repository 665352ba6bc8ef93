"""A historical defect: a changed system, and the property that must catch it."""

from dataclasses import dataclass

from pdproto.spec.language import Configuration, System


@dataclass(frozen=True, slots=True)
class Bug:
    """One defect of a real system, kept as an edit of the tables.

    id: its name here, such as "B22". source: where it was reported. symptom: the effect for its
    users, in a sentence. system: the edited system. configuration: the sizes and faults at which it
    shows. violates: the property that the explorer must find violated. note: a further explanation.
    """

    id: str
    source: str
    symptom: str
    system: System
    configuration: Configuration
    violates: str
    note: str = ""
