"""Ground programs for the tests and benchmarks of the engines: known ones and random ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from pdproto.ground.program import (
    WORD_BITS,
    Action,
    Guard,
    Literal,
    Permutation,
    Program,
    Stripe,
    Symmetry,
)

# Distinct states of TLA+'s TwoPhase as TLC, Stateright and SPIN report them, by participants.
TWO_PHASE_COMMIT_STATES = {3: 288, 5: 8_832, 7: 296_448, 9: 10_340_352}


@dataclass(slots=True)
class Fields:
    """Gives each named field its bits, one after another, none across the border of a word."""

    offsets: dict[str, int] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)
    bits: int = 0

    def add(self, name: str, width: int) -> None:
        if self.bits % WORD_BITS + width > WORD_BITS:
            self.skip(-self.bits % WORD_BITS)
        self.offsets[name], self.widths[name] = self.bits, width
        self.bits += width

    def skip(self, bits: int) -> None:
        self.bits += bits

    def cube(self, **values: int) -> tuple[int, int]:
        """The mask and the value of a cube over whole fields."""
        mask = value = 0
        for name, number in values.items():
            mask |= (1 << self.widths[name]) - 1 << self.offsets[name]
            value |= number << self.offsets[name]
        return mask, value

    def guard(self, **values: int) -> Guard:
        return Guard(*self.cube(**values))

    def action(self, guard: dict[str, int], update: dict[str, int]) -> Action:
        return Action(self.guard(**guard), *self.cube(**update))


def two_phase_commit(participants: int, *, bits: int = 0, symmetric: bool = False) -> Program:
    """TLA+'s TwoPhase: a manager, and messages that stay in a set once they were sent.

    bits: spread the fields evenly over a state at least so wide. symmetric: let participants be
    interchangeable, with a column of 4 bits each.
    """
    numbers = range(participants)
    fields = Fields()
    fields.add("manager", 2)  # 0 waiting, 1 committed, 2 aborted
    fields.add("commit_sent", 1)
    fields.add("abort_sent", 1)
    gap = max(0, bits - 4 - 4 * participants) // participants
    for i in numbers:
        fields.skip(gap)
        fields.add(f"column{i}", 4)
        start = fields.offsets[f"column{i}"]
        # 0 working, 1 prepared, 2 committed, 3 aborted
        fields.offsets[f"state{i}"], fields.widths[f"state{i}"] = start, 2
        fields.offsets[f"sent{i}"], fields.widths[f"sent{i}"] = start + 2, 1
        fields.offsets[f"heard{i}"], fields.widths[f"heard{i}"] = start + 3, 1
    rows = [
        fields.action(
            {"manager": 0, **{f"heard{i}": 1 for i in numbers}}, {"manager": 1, "commit_sent": 1}
        ),
        fields.action({"manager": 0}, {"manager": 2, "abort_sent": 1}),
    ]
    for i in numbers:
        state, sent, heard = f"state{i}", f"sent{i}", f"heard{i}"
        rows += [
            fields.action({"manager": 0, sent: 1}, {heard: 1}),
            fields.action({state: 0}, {state: 1, sent: 1}),
            fields.action({state: 0}, {state: 3}),
            fields.action({"commit_sent": 1}, {state: 2}),
            fields.action({"abort_sent": 1}, {state: 3}),
        ]
    disagreements = [
        fields.guard(**{f"state{i}": 2, f"state{j}": 3}) for i in numbers for j in numbers if i != j
    ]
    columns = Stripe(tuple(fields.offsets[f"column{i}"] for i in numbers), width=4)
    return Program(
        bits=max(bits, fields.bits),
        initial=(0,),
        rows=tuple(rows),
        progress=(True,) * len(rows),
        patterns=tuple(disagreements),
        symmetry=Symmetry(stripes=(columns,)) if symmetric else Symmetry(),
    )


def counters(values: Sequence[int], *, bits_each: int) -> Program:
    """Independent counters that rise by one until their value; they stop there, and are stuck.

    The states number the product of `value + 1`, and the depth is the sum of the values.
    """
    fields = Fields()
    for i, _ in enumerate(values):
        fields.add(f"counter{i}", bits_each)
    rows = [
        fields.action({f"counter{i}": low}, {f"counter{i}": low + 1})
        for i, value in enumerate(values)
        for low in range(value)
    ]
    return Program(
        bits=fields.bits,
        initial=(0,),
        rows=tuple(rows),
        progress=(True,) * len(rows),
        patterns=(fields.guard(**{f"counter{i}": value for i, value in enumerate(values)}),),
    )


FIELD_WIDTH = 3  # a few rows over random fields of 3 bits already make many states
WORDS_DRAWN = 11


@st.composite
def programs(draw: st.DrawFn, *, swept: bool = False, symmetric: bool = False) -> Program:
    """Random small programs over 1 to 700 bits whose few fields are scattered over the words."""
    fields = draw(st.integers(1, 4))
    words = draw(st.integers(1, WORDS_DRAWN))
    offsets = draw(_offsets(words, fields))
    values = st.integers(0, (1 << FIELD_WIDTH) - 1)
    cubes = st.dictionaries(st.sampled_from(offsets), values, max_size=2)
    literals = st.builds(
        _literal, st.sampled_from(offsets), st.integers(1, 7), values, st.sampled_from((0, 0, 1)))
    clauses = st.lists(st.lists(literals, max_size=3).map(tuple), max_size=2).map(tuple)
    guards = st.builds(lambda c, k: Guard(*_cube(c), k), cubes, st.just(()) | clauses)
    updates = st.dictionaries(st.sampled_from(offsets), values, min_size=1, max_size=len(offsets))
    actions = st.builds(lambda g, u: Action(g, *_cube(u)), guards, updates)
    copies = st.dictionaries(st.sampled_from(offsets), st.sampled_from(offsets), max_size=3)
    copying = st.builds(_copying, actions, copies)
    rows = draw(st.lists(actions | copying, min_size=1, max_size=24))
    initial = draw(st.lists(cubes.map(lambda c: _cube(c)[1]), min_size=1, max_size=4))
    return Program(
        bits=max(offsets) + FIELD_WIDTH + draw(st.integers(0, 8)),
        initial=tuple(initial),
        rows=tuple(rows),
        progress=tuple(draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))),
        patterns=tuple(draw(st.lists(guards, max_size=12))),
        sweeps=tuple(draw(st.lists(actions, min_size=1, max_size=10))) if swept else (),
        symmetry=draw(_symmetries(offsets)) if symmetric else Symmetry(),
        final=tuple(draw(st.lists(guards, max_size=1))),
    )


def _offsets(words: int, fields: int) -> st.SearchStrategy[list[int]]:
    """Fields at different places, none of which straddles a word."""
    places = [
        word * WORD_BITS + FIELD_WIDTH * place
        for word in range(words)
        for place in range(WORD_BITS // FIELD_WIDTH)
    ]
    return st.lists(st.sampled_from(places), min_size=fields, max_size=fields, unique=True)


def _literal(offset: int, ones: int, value: int, top: int) -> Literal:
    """A literal about some bits of a field; about the top bit of its word too, if `top` is 1."""
    highest = top << offset - offset % WORD_BITS + WORD_BITS - 1
    return Literal(ones << offset | highest, (ones & value) << offset)


def _copying(action: Action, copies: dict[int, int]) -> Action:
    """The action, in which some fields get the values of others."""
    targets = sum(7 << offset for offset in copies)
    return Action(action.guard, action.clear | targets, action.assign & ~targets,
                  tuple((7 << source, target - source) for target, source in copies.items()))


def _cube(values: dict[int, int]) -> tuple[int, int]:
    mask = value = 0
    for offset, number in values.items():
        mask |= 7 << offset
        value |= number << offset
    return mask, value


@st.composite
def _symmetries(draw: st.DrawFn, offsets: list[int]) -> Symmetry:
    """Some fields as the columns of a stripe, others permuted by a group, the rest left alone."""
    cut = draw(st.integers(0, len(offsets)))
    columns, rest = offsets[:cut], offsets[cut:]
    stripe = Stripe(tuple(columns), draw(st.integers(1, FIELD_WIDTH)))
    images = draw(st.lists(st.permutations(rest), max_size=4))
    group = (Permutation(_moves(rest, rest)), *(Permutation(_moves(rest, i)) for i in images))
    return Symmetry(stripes=(stripe,) if columns else (), groups=(group,) if images else ())


def _moves(sources: Sequence[int], targets: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The moves that bring field `sources[i]` to `targets[i]` and leave every other bit alone."""
    moved = sum(7 << offset for offset in sources)
    still = (1 << WORDS_DRAWN * WORD_BITS) - 1 & ~moved
    shifts = (target - source for source, target in zip(sources, targets, strict=True))
    return (still, 0), *zip((7 << source for source in sources), shifts, strict=True)
