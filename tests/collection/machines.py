"""A bridge of one lane, a game of colours, a graph, a ring of slots, a search in a list."""

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
    Seq,
    Sort,
    State,
    System,
    Table,
    all_of,
    any_of,
    auto,
    each,
    exists,
    forall,
    if_then_else,
    implies,
    min_of,
    sum_of,
)
from pdproto.spec.language.terms import Term
from tests.collection.model import Model

# ---- Cars of two directions on a bridge of one lane


class Car(Sort):
    """A car; the first two go down the numbers of the places, the others up."""


c, d = Car("c"), Car("d")
down = Rigid("down", c, given=lambda _: {(0,), (1,)})
road = Machine("road", host=True)
place = road.function("place", Int(1, 8), Car, init=ANY)
queue = road.function("queue", Seq(Car, most=4))


def on_bridge(place: Term) -> Formula:
    return (place >= 4) & (place <= 5)


def _drives(way: bool) -> tuple[Row, ...]:
    """The rows of the cars of one direction. way: they go down."""
    goes = down(c) if way else ~down(c)
    here = place(c)
    there = if_then_else(here == 1, 8, here - 1) if way else if_then_else(here == 8, 1, here + 1)
    before = 7 if way else 2  # from where a car comes to the place where it waits
    free = forall(d, ~any_of(*((here == at) & (place(d) == (at - 1 if way else at + 1))
                               for at in (4, 5, 3, 6))))
    same = forall(d, implies(on_bridge(place(d)), down(d) if way else ~down(d)))
    name, first = "down" if way else "up", (queue().length > 0) & (queue().head == c)
    return (
        Row(f"{name}_outside", choose=c, do=place(c).to(there), when=all_of(
            goes, *(here != at for at in ((6, 5, before) if way else (3, 4, before))))),
        Row(f"{name}_waits", choose=c, when=goes & (here == before),
            do=[place(c).to(there), queue().append(c)]),
        Row(f"{name}_on_the_bridge", choose=c, when=all_of(goes, on_bridge(here), free),
            do=place(c).to(there)),
        Row(f"{name}_enters", choose=c, do=[place(c).to(there), queue().tail()], when=all_of(
            goes, first, ~on_bridge(here), same, free)),
    )


BRIDGE = System("bridge", "Cars of two directions share one lane.", (Table(road, rows=(
    *_drives(way=True), *_drives(way=False))),), (
        Always("one_direction", ~all_of(
            down(c), ~down(d), on_bridge(place(c)), on_bridge(place(d)))),
        Always("no_crash", implies(on_bridge(place(c)) & (place(c) == place(d)), c.same(d))),
        LeadsTo("leaves", on_bridge(place(c)), ~on_bridge(place(c)))),
    init=(place(c) == if_then_else(down(c), 8, 1)),
    final=TRUE, configurations={"default": Configuration({Car: 4})})

# ---- Creatures that change their colours when two of them meet


class Creature(Sort):
    """A creature."""


class Colour(State):
    BLUE = auto()
    RED = auto()
    YELLOW = auto()
    FADED = auto()


MEETINGS = 4
LIVELY = (Colour.BLUE, Colour.RED, Colour.YELLOW)
x, y = Creature("x"), Creature("y")
mall = Machine("mall", host=True)
colour = mall.function("colour", Colour, Creature, init=ANY)
times = mall.function("times", Int(0, MEETINGS), Creature)
waiting = mall.function("waiting", Creature)
meetings = mall.function("meetings", Int(0, MEETINGS))


def _meets(one: Colour, two: Colour) -> Row:
    """Both take the third colour, or keep the one that they have in common."""
    (new,) = {one} if one == two else {*LIVELY} - {one, two}
    return Row(f"meet_{one.value}_{two.value}", choose=(x, y), when=all_of(
        x.differs(y), waiting() == y, colour(x) == one, colour(y) == two), do=[
            waiting().clear(), meetings().to(meetings() + 1), *(
                change for who in (x, y) for change in (
                    colour(who).to(new), times(who).to(times(who) + 1)))])


GAME = System("game", "Creatures meet in pairs.", (Table(mall, rows=(
    Row("come", choose=x, do=waiting().to(x),
        when=all_of(waiting().unset, meetings() < MEETINGS, colour(x) != Colour.FADED)),
    Row("fade", choose=x, do=colour(x).to(Colour.FADED),
        when=all_of(waiting().unset, meetings() == MEETINGS, colour(x) != Colour.FADED)),
    *(_meets(one, two) for one in LIVELY for two in LIVELY),
)),), (Always("pairs_meet", implies(
    meetings() == MEETINGS, sum_of(x, times(x)) == 2 * MEETINGS)),),
    init=colour(x) != Colour.FADED, final=TRUE, configurations={
        "default": Configuration({Creature: 4})})

# ---- Two processes mark what can be reached in a graph


class Vertex(Sort):
    """A vertex; each has two successors."""


class Walker(Sort):
    """A process."""


class Doing(State):
    CHOOSES = auto()
    LOOKS = auto()
    ADDS = auto()
    DONE = auto()


v, w, p, q = Vertex("v"), Vertex("w"), Walker("p"), Walker("q")
edge = Rigid("edge", v, w, given=lambda _: {(v, w) for v in range(4) for w in (0, 1)})
graph = Machine("graph", host=True)
marked = graph.relation("marked", Vertex)
to_do = graph.relation("to_do", Vertex, init=ANY)
doing = graph.function("doing", Doing, Walker)
at = graph.function("at", Vertex, Walker, init=ANY)
adding = graph.relation("adding", Walker, Vertex)
root = Rigid("root", v, given=lambda _: {(0,)})
REACH = System("reach", "Two processes mark what can be reached.", (Table(graph, rows=(
    Row("choose", choose=(p, v), when=(doing(p) == Doing.CHOOSES) & to_do(v),
        do=[at(p).to(v), doing(p).to(Doing.LOOKS)]),
    Row("end", choose=p, when=(doing(p) == Doing.CHOOSES) & forall(v, ~to_do(v)),
        do=doing(p).to(Doing.DONE)),
    Row("mark", choose=(p, v), when=all_of(doing(p) == Doing.LOOKS, at(p) == v, ~marked(v)), do=[
        marked(v).to(True), each(w, adding(p, w).to(True), where=edge(v, w)),
        doing(p).to(Doing.ADDS)]),
    Row("drop", choose=(p, v), when=all_of(doing(p) == Doing.LOOKS, at(p) == v, marked(v)),
        do=[to_do(v).to(False), doing(p).to(Doing.CHOOSES)]),
    Row("add", choose=(p, v), when=(doing(p) == Doing.ADDS) & adding(p, v),
        do=[to_do(v).to(True), adding(p, v).to(False)]),
    Row("added", choose=p, when=(doing(p) == Doing.ADDS) & forall(v, ~adding(p, v)),
        do=doing(p).to(Doing.CHOOSES)),
)),), (LeadsTo("all_end", TRUE, forall(p, doing(p) == Doing.DONE)),
       Always("all_is_marked", implies(
           forall(p, doing(p) == Doing.DONE) & marked(v) & edge(v, w), marked(w)))),
    init=exists(v, all_of(root(v), to_do(v), forall(w, implies(to_do(w), w.same(v))),
                          forall(p, at(p) == v))),
    final=forall(p, doing(p) == Doing.DONE),
    configurations={"default": Configuration({Vertex: 4, Walker: 2})})

# ---- A writer and its readers on a ring of slots


class Reader(Sort):
    """A reader."""


class Slot(Numbers, values=Int(0, 3)):
    """A slot; they are taken in turns."""


LAST = 9  # of the numbers that are published
r, s = Reader("r"), Slot("s")
ring = Machine("ring", host=True)
slot = ring.function("slot", Int(-1, LAST + 1), Slot)
published = ring.function("published", Int(-1, LAST))
read = ring.function("read", Int(-1, LAST), Reader)
writes, reads = ring.relation("writes", Slot), ring.relation("reads", Slot, Reader)
consumed = ring.function("consumed", Int(-1, LAST), Reader)
following, behind = published() + 1, read(r) + 1
DISRUPTOR = System("disruptor", "A writer is at most one round ahead of its readers.", (
    Table(ring, rows=(
        Row("begin_to_write", choose=s, do=[writes(s).to(True), slot(s).to(following)], when=all_of(
            s == following % 4, ~writes(s), min_of(r, read(r)) + 3 >= published())),
        Row("end_to_write", choose=s, do=[writes(s).to(False), published().to(following)],
            when=all_of(s == following % 4, writes(s), published() < LAST)),
        Row("begin_to_read", choose=(r, s), do=[reads(s, r).to(True), consumed(r).to(slot(s))],
            when=all_of(s == behind % 4, ~reads(s, r), published() > read(r))),
        Row("end_to_read", choose=(r, s), do=[reads(s, r).to(False), read(r).to(behind)],
            when=all_of(s == behind % 4, reads(s, r))),
    )),), (Always("no_races", ~(writes(s) & reads(s, r))),
           Always("reads_what_was_written", implies(reads(s, r), consumed(r) == behind))),
    final=TRUE, configurations={"default": Configuration({Reader: 3})})

# ---- A search in a sorted list


class Index(Numbers, values=Int(1, 8)):
    """A place in the list."""


i, j = Index("i"), Index("j")
search = Machine("search")
item = search.function("item", Int(0, 5), Index, init=ANY)  # 0 behind the end
wanted = search.function("wanted", Int(1, 5), init=ANY)
low, high = search.function("low", Int(1, 9)), search.function("high", Int(0, 8), init=ANY)
result = search.function("result", Int(0, 8))
ended = search.relation("ended")
middle = all_of(~ended(), low() <= high(), result() == 0, i == (low() + high()) // 2)
BINARY = System("binary-search", "A sorted list is halved.", (Table(search, rows=(
    Row("find", choose=i, when=middle & (item(i) == wanted()), do=result().to(i)),
    Row("go_left", choose=i, when=middle & (wanted() < item(i)), do=high().to(i - 1)),
    Row("go_right", choose=i, when=middle & (wanted() > item(i)), do=low().to(i + 1)),
    Row("end", when=~ended() & any_of(low() > high(), result() != 0), do=ended().to(True)),
)),), (Always("is_found", implies(i == result(), item(i) == wanted())),
       Always("is_not_there", implies(ended() & (result() == 0), item(i) != wanted())),
       LeadsTo("ends", TRUE, ended())),
    init=all_of(high() >= 1, any_of(i > high(), item(i) >= 1), any_of(i <= high(), item(i) == 0),
                implies((i < j) & (j <= high()), item(i) <= item(j))),
    final=ended(), configurations={"default": Configuration({})})

MODELS = (
    Model("SingleLaneBridge", BRIDGE, 3_605, "published"),
    Model("Chameneos", GAME, 34_534, "published"),
    Model("ParReach", REACH, 393, "published"),
    Model("Disruptor_SPMC", DISRUPTOR, 8_496, "published"),
    Model("BinarySearch", BINARY, 27_953, "published", no_tlc="it lists all 6 ** 8 lists first"),
)
