"""The vocabulary of protocols: everything that a spec module imports.

A spec builds values and runs nothing. The rules of the language: docs/reference/language.md.
"""

from enum import auto

from .computed import if_then_else
from .edit import (
    AddClause,
    AddEffect,
    AddFaults,
    AddProperty,
    AddRow,
    DropClause,
    DropEffect,
    DropProperty,
    DropRow,
    ReplaceProperties,
    ReplaceRow,
    Retarget,
    edited,
)
from .formula import FALSE, TRUE, Formula, all_of, any_of, exists, forall, implies
from .machine import Call, Completion, Machine, Row, Table, Timer
from .numbered import Numbers
from .numbers import count, max_of, min_of, size, sum_of
from .place import SpecError
from .properties import Always, Drains, Fairness, LeadsTo, OnRow, Sometimes
from .ranges import Int
from .refines import Refines
from .sequences import Seq
from .shorthands import Ignore, Reject, each, lose
from .sorts import ANY, Sort, majorities
from .symbols import Message, Rigid, Sizes, State, Tuples
from .system import Configuration, System

__all__ = [
    "ANY",
    "FALSE",
    "TRUE",
    "AddClause",
    "AddEffect",
    "AddFaults",
    "AddProperty",
    "AddRow",
    "Always",
    "Call",
    "Completion",
    "Configuration",
    "Drains",
    "DropClause",
    "DropEffect",
    "DropProperty",
    "DropRow",
    "Fairness",
    "Formula",
    "Ignore",
    "Int",
    "LeadsTo",
    "Machine",
    "Message",
    "Numbers",
    "OnRow",
    "Refines",
    "Reject",
    "ReplaceProperties",
    "ReplaceRow",
    "Retarget",
    "Rigid",
    "Row",
    "Seq",
    "Sizes",
    "Sometimes",
    "Sort",
    "SpecError",
    "State",
    "System",
    "Table",
    "Timer",
    "Tuples",
    "all_of",
    "any_of",
    "auto",
    "count",
    "each",
    "edited",
    "exists",
    "forall",
    "if_then_else",
    "implies",
    "lose",
    "majorities",
    "max_of",
    "min_of",
    "size",
    "sum_of",
]
