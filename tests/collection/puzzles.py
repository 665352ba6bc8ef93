"""Riddles: jugs, towers, crossings of a river, tiles, beans, prisoners."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import factorial

from pdproto.spec.language import (
    ANY,
    TRUE,
    Always,
    Configuration,
    Formula,
    Int,
    LeadsTo,
    Machine,
    Numbers,
    Rigid,
    Row,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    all_of,
    any_of,
    auto,
    exists,
    forall,
    if_then_else,
    implies,
    sum_of,
)
from tests.collection.model import Model, reached

ALONE = {"default": Configuration({})}

# ---- Two jugs of 3 and 5 gallons

jugs = Machine("jugs")
small, big = jugs.function("small", Int(0, 3)), jugs.function("big", Int(0, 5))
DIE_HARD = System("die-hard", "Two jugs measure four gallons.", (Table(jugs, rows=(
    Row("fill_small", do=small().to(3)), Row("fill_big", do=big().to(5)),
    Row("empty_small", do=small().to(0)), Row("empty_big", do=big().to(0)),
    Row("small_to_big", do=[
        big().to(if_then_else(small() + big() < 5, small() + big(), 5)),
        small().to(if_then_else(small() + big() < 5, 0, small() + big() - 5))]),
    Row("big_to_small", do=[
        small().to(if_then_else(small() + big() < 3, small() + big(), 3)),
        big().to(if_then_else(small() + big() < 3, 0, small() + big() - 3))]),
)),), (Always("never_four", big() != 4),), configurations=ALONE)

# ---- The towers of Hanoi


class Disk(Sort, ordered=True):
    """A disk, from the smallest one on."""


class Peg(Sort, ordered=True):
    """A peg."""


d, e, a, b = Disk("d"), Disk("e"), Peg("a"), Peg("b")
tower = Machine("tower")
on = tower.function("on", Peg, Disk, init=ANY)
HANOI = System("hanoi", "Disks on three pegs.", (Table(tower, rows=(
    Row("move", choose=(d, a, b), do=on(d).to(b), when=all_of(
        on(d) == a, a.differs(b), forall(e, implies(
            e.before(d), (on(e) != a) & (on(e) != b))))),)),),
    (Sometimes("solved", forall((d, a), implies(on(d) == a, forall(b, ~a.before(b))))),),
    init=forall(d, exists(a, (on(d) == a) & forall(b, ~b.before(a)))),
    configurations={"default": Configuration({Disk: 3, Peg: 3}),
                    "five": Configuration({Disk: 5, Peg: 3})})

# ---- Missionaries and cannibals


class Bank(State):
    LEFT = auto()
    RIGHT = auto()


ferry = Machine("ferry")
monks = ferry.function("monks", Int(0, 3), init=3)
eaters = ferry.function("eaters", Int(0, 3), init=3)
boat = ferry.function("boat", Bank)


def peaceful(one: int, two: int) -> Formula:
    """After so many have come to the left bank, no cannibals are in the majority beside some."""
    here, there = monks() + one, eaters() + two
    return all_of(here >= 0, here <= 3, there >= 0, there <= 3,
                  any_of(here == 0, here >= there), any_of(here == 3, here <= there))


LOADS = ((1, 0), (2, 0), (0, 1), (0, 2), (1, 1))
CROSSINGS = tuple(
    Row(f"{'back' if sign > 0 else 'over'}_{one}_{two}", at=Bank.RIGHT if sign > 0 else Bank.LEFT,
        to=Bank.LEFT if sign > 0 else Bank.RIGHT, when=peaceful(sign * one, sign * two),
        do=[monks().to(monks() + sign * one), eaters().to(eaters() + sign * two)])
    for sign in (-1, 1) for one, two in LOADS)
MISSIONARIES = System(
    "missionaries", "Three missionaries and three cannibals cross a river.",
    (Table(ferry, state=boat, rows=CROSSINGS),),
    (Always("never_over", ~((monks() == 0) & (eaters() == 0))),), configurations=ALONE)


def _crossed(state: tuple[int, int, bool]) -> Iterator[tuple[int, int, bool]]:
    one, two, left = state
    for more, others in LOADS:
        here, there = (one - more, two - others) if left else (one + more, two + others)
        if 0 <= here <= 3 and 0 <= there <= 3 and here in {0, 3, there}:
            yield here, there, not left


# ---- A wolf, a goat and a cabbage

farmer = Machine("farmer")
across = {name: farmer.relation(name) for name in ("farmer", "wolf", "goat", "cabbage")}
with_goat = any_of(*(
    all_of(*(across[one]() if far else ~across[one]() for one in ("farmer", "goat")))
    for far in (False, True)))


def apart(one: str, two: str) -> Formula:
    """The two are on different banks."""
    return any_of(across[one]() & ~across[two](), ~across[one]() & across[two]())


def _ride(cargo: str, *, back: bool) -> Row:
    """The farmer rows, with this cargo or alone; nothing is eaten on the bank that is left."""
    moved = [across["farmer"], *([across[cargo]] if cargo else [])]
    rest = {"wolf": ("wolf", "goat"), "cabbage": ("goat", "cabbage")}
    safe = [any_of(apart(*pair), across[pair[0]]() if not back else ~across[pair[0]]())
            for pair in rest.values() if cargo not in pair]
    return Row(f"{'back' if back else 'over'}_{cargo or 'alone'}",
               when=[*((one() if back else ~one()) for one in moved), *safe],
               do=[one().to(not back) for one in moved])


GOAT = System("goat", "A farmer, a wolf, a goat and a cabbage cross a river.", (Table(farmer, rows=(
    tuple(_ride(cargo, back=back) for back in (False, True)
          for cargo in ("", "wolf", "goat", "cabbage")))),),
    (Always("never_over", ~all_of(*(one() for one in across.values()))),), configurations=ALONE)

# ---- Tiles in a frame of 3 by 2


class Field(Sort, ordered=True):
    """A field of the frame."""


f, g = Field("f"), Field("g")
frame = Machine("frame", host=True)
tile = frame.function("tile", Int(0, 5), Field, init=ANY)
beside = Rigid("beside", f, g, given=lambda _: {
    (i, j) for i, j in product(range(6), repeat=2)
    if abs(i // 3 - j // 3) + abs(i % 3 - j % 3) == 1})
TILES = System("tiles", "Five tiles in a frame of 3 by 2.", (Table(frame, rows=(
    Row("slide", choose=(f, g), when=all_of(beside(f, g), f.differs(g), tile(f) == 0),
        do=[tile(f).to(tile(g)), tile(g).to(0)]),)),),
    init=forall((f, g), implies(f.before(g), tile(f) < tile(g))),
    configurations={"default": Configuration({Field: 6})})

# ---- A can of beans

BEANS = 40
can = Machine("can")
black = can.function("black", Int(0, BEANS), init=ANY)
white = can.function("white", Int(0, BEANS), init=ANY)
COFFEE = System("coffee-can", "Two beans are taken, and one is put back.", (Table(can, rows=(
    Row("two_white", when=white() >= 2, do=[white().to(white() - 2), black().to(black() + 1)]),
    Row("one_less_black", when=all_of(black() >= 1, black() + white() >= 2),
        do=black().to(black() - 1)),
)),), (LeadsTo("one_is_left", TRUE, black() + white() == 1),), final=black() + white() == 1,
    init=(black() + white() >= 1) & (black() + white() <= BEANS), configurations=ALONE)

# ---- Prisoners and two switches


class Prisoner(Sort):
    """One of those that do not count."""


p = Prisoner("p")
room = Machine("room", host=True)
first, other = room.relation("first", init=ANY), room.relation("other", init=ANY)
turned = room.function("turned", Int(0, 2), Prisoner)
OTHERS = 3
counted = room.function("counted", Int(0, 2 * OTHERS + 1))
PRISONERS = System("prisoners", "One of four prisoners counts the visits to a room.", (
    Table(room, rows=(
        Row("turn_on", choose=p, when=~first() & (turned(p) < 2),
            do=[first().to(True), turned(p).to(turned(p) + 1)]),
        Row("turn_other", choose=p, when=first() | (turned(p) == 2), do=other().to(~other())),
        Row("count", when=first(), do=[
            first().to(False), counted().to(counted() + 1)]),
        Row("wait", when=~first(), do=other().to(~other())),
    )),), (Always("all_were_there", implies(counted() == 2 * OTHERS, turned(p) >= 1)),
           Always("few_are_counted", counted() <= sum_of(p, turned(p)) + 1)),
    configurations={"default": Configuration({Prisoner: OTHERS})})


# ---- Five houses, and who lives in them


class House(Numbers, values=Int(1, 5)):
    """A house."""


class Nation(State):
    BRIT = auto()
    SWEDE = auto()
    DANE = auto()
    NORWEGIAN = auto()
    GERMAN = auto()


class Drink(State):
    BEER = auto()
    COFFEE = auto()
    MILK = auto()
    TEA = auto()
    WATER = auto()


class Paint(State):
    RED = auto()
    WHITE = auto()
    BLUE = auto()
    GREEN = auto()
    YELLOW = auto()


class Pet(State):
    BIRD = auto()
    CAT = auto()
    DOG = auto()
    FISH = auto()
    HORSE = auto()


class Smoke(State):
    BLEND = auto()
    BLUEMASTER = auto()
    DUNHILL = auto()
    PALLMALL = auto()
    PRINCE = auto()


h, k = House("h"), House("k")
street = Machine("street")
nation = street.function("nation", Nation, House, init=ANY)
drink = street.function("drink", Drink, House, init=ANY)
paint = street.function("paint", Paint, House, init=ANY)
pet = street.function("pet", Pet, House, init=ANY)
smoke = street.function("smoke", Smoke, House, init=ANY)


def together(one: Formula, two: Formula) -> Formula:
    """Both are true of one house."""
    return exists(h, one & two)


def neighbours(one: Formula, two: Formula) -> Formula:
    """The first is true of a house, and the second of one beside it, which is `k` there."""
    return exists((h, k), all_of(one, two, any_of(k == h + 1, h == k + 1)))


RIDDLE = System("riddle", "Who keeps the fish?", (Table(street),), (
    Always("the_german_keeps_the_fish", implies(nation(h) == Nation.GERMAN, pet(h) == Pet.FISH)),),
    init=all_of(
        *(forall((h, k), implies(h < k, ~((of(h) == value) & (of(k) == value))))
          for of, values in ((nation, Nation), (drink, Drink), (paint, Paint), (pet, Pet),
                             (smoke, Smoke)) for value in values),
        together(nation(h) == Nation.BRIT, paint(h) == Paint.RED),
        together(nation(h) == Nation.SWEDE, pet(h) == Pet.DOG),
        together(nation(h) == Nation.DANE, drink(h) == Drink.TEA),
        together(paint(h) == Paint.GREEN, exists(k, (k == h + 1) & (paint(k) == Paint.WHITE))),
        together(paint(h) == Paint.GREEN, drink(h) == Drink.COFFEE),
        together(smoke(h) == Smoke.PALLMALL, pet(h) == Pet.BIRD),
        together(paint(h) == Paint.YELLOW, smoke(h) == Smoke.DUNHILL),
        together(h == 3, drink(h) == Drink.MILK),
        together(h == 1, nation(h) == Nation.NORWEGIAN),
        neighbours(smoke(h) == Smoke.BLEND, pet(k) == Pet.CAT),
        neighbours(pet(h) == Pet.HORSE, smoke(k) == Smoke.DUNHILL),
        together(smoke(h) == Smoke.BLUEMASTER, drink(h) == Drink.BEER),
        together(nation(h) == Nation.GERMAN, smoke(h) == Smoke.PRINCE),
        neighbours(nation(h) == Nation.NORWEGIAN, paint(k) == Paint.BLUE),
        neighbours(smoke(h) == Smoke.BLEND, drink(k) == Drink.WATER)),
    final=TRUE, configurations=ALONE)

MODELS = (
    Model("DieHard", DIE_HARD, 16, "published", frozenset({"never_four"})),
    Model("TowerOfHanoi", HANOI, 3 ** 3, "3 to the power of the disks", larger=(("five", 3 ** 5),)),
    Model("MissionariesAndCannibals", MISSIONARIES, 16, "a plain search", frozenset({"never_over"}),
          search=partial(reached, [(3, 3, True)], _crossed)),
    Model("a wolf, a goat and a cabbage", GOAT, 10, "known", frozenset({"never_over"})),
    Model("SlidingPuzzles, 3 by 2", TILES, factorial(6) // 2, "half of the permutations"),
    Model("EinsteinRiddle", RIDDLE, 1, "known", no_tlc="it lists all 5 ** 25 values first"),
    Model("CoffeeCan", COFFEE, BEANS * (BEANS + 3) // 2,
          "n (n + 3) / 2 of n beans"),
    Model("Prisoners", PRISONERS, 214, "published"),
)
