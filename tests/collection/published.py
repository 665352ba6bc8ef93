"""Small models of the public collection, with the numbers of states that it states."""

from dataclasses import replace

from pdproto.spec.examples import voting
from pdproto.spec.language import (
    ANY,
    TRUE,
    Always,
    Configuration,
    Formula,
    Int,
    LeadsTo,
    Machine,
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
    exists,
    forall,
    if_then_else,
    implies,
)
from pdproto.spec.language.terms import Term
from tests.collection.model import Model

ALONE = {"default": Configuration({})}

# ---- Smokers: an offer lacks one ingredient, and who has it smokes


class Ingredient(Sort):
    """One of three."""


i, k = Ingredient("i"), Ingredient("k")
table = Machine("table", host=True)
lacks, smokes = table.function("lacks", Ingredient, init=ANY), table.function("smokes", Ingredient)
SMOKERS = System("smokers", "Smokers.", (Table(table, rows=(
    Row("start", choose=i, when=lacks() == i, do=[smokes().to(i), lacks().clear()]),
    Row("stop", choose=(i, k), when=smokes() == i, do=[smokes().clear(), lacks().to(k)]),
)),), (Always("one_of_both", implies(lacks().is_set, smokes().unset)),
       LeadsTo("smokes", lacks() == i, smokes() == i)),
    init=lacks().is_set, configurations={"default": Configuration({Ingredient: 3})})

# ---- A cat in a row of boxes


def _cat(boxes: int) -> System:
    house = Machine("house")
    cat = house.function("cat", Int(1, boxes), init=ANY)
    looked = house.function("looked", Int(2, boxes - 1), init=ANY)
    right = house.relation("right", init=ANY)
    turns = if_then_else(right(), 1, -1)
    rows = tuple(
        Row(f"{'look' if inside else 'turn'}_{'up' if step > 0 else 'down'}",
            when=[cat() + step >= 1, cat() + step <= boxes,
                  _between(looked() + turns, 2, boxes - 1) if inside else
                  ~_between(looked() + turns, 2, boxes - 1)],
            do=[cat().to(cat() + step), looked().to(looked() + turns) if inside else
                right().to(~right())])
        for step in (1, -1) for inside in (True, False))
    return System("cat", "A cat moves each night, and a box is opened each morning.", (
        Table(house, rows=rows),), (LeadsTo("found", TRUE, looked() == cat()),),
        configurations=ALONE)


def _between(number: Term, low: int, high: int) -> Formula:
    return all_of(number >= low, number <= high)


# ---- Prisoners and one switch


class Prisoner(Sort):
    """One of those that do not count."""


p = Prisoner("p")


def _prisoners(*, known: bool) -> System:
    cell = Machine("cell", host=True)
    light = cell.relation("light", **({} if known else {"init": ANY}))
    times, most = (1, 3) if known else (2, 5)
    counted = cell.function("counted", Int(1, most + 1))
    announced = cell.relation("announced")
    signalled = cell.function("signalled", Int(0, times), Prisoner)
    came, counter_came = cell.relation("came", Prisoner), cell.relation("counter_came")
    return System("one-switch", "One of three prisoners counts.", (Table(cell, rows=(
        Row("count", when=light(), do=[
            light().to(False), counted().to(counted() + 1), counter_came().to(True),
            announced().to(counted() + 1 >= most)]),
        Row("look", when=~light(), do=[
            counter_came().to(True), announced().to(counted() >= most)]),
        Row("signal", choose=p, when=~light() & (signalled(p) < times), do=[
            light().to(True), signalled(p).to(signalled(p) + 1), came(p).to(True)]),
        Row("pass", choose=p, when=light() | (signalled(p) == times), do=came(p).to(True)),
    )),), (Always("all_came", implies(announced(), counter_came() & forall(p, came(p)))),
           LeadsTo("ends", TRUE, announced())), final=announced(),
        configurations={"default": Configuration({Prisoner: 2})})


# ---- A barrier


class Process(Sort):
    """A process."""


x, y = Process("x"), Process("y")
gate = Machine("gate", host=True)
waits = gate.relation("waits", Process)
BARRIER = System("barrier", "All wait, and then all go on.", (Table(gate, rows=(
    Row("come", choose=x, when=~waits(x), do=waits(x).to(True)),
    Row("open", when=forall(x, waits(x)), do=waits(ANY).to(False)),
)),), (LeadsTo("opens", waits(x), ~waits(x)),),
    configurations={"default": Configuration({Process: 6})})

# ---- A lock for two


class Where(State):
    AWAY = auto()
    ASKS = auto()
    INSIDE = auto()
    LEAVES = auto()


lock = Machine("lock", host=True)
where = lock.function("where", Where, Process)
free = lock.relation("free", init=True)
LOCK = System("lock", "A lock for two.", (Table(lock, rows=(
    Row("ask", choose=x, when=where(x) == Where.AWAY, do=where(x).to(Where.ASKS)),
    Row("enter", choose=x, when=(where(x) == Where.ASKS) & free(),
        do=[where(x).to(Where.INSIDE), free().to(False)]),
    Row("leave", choose=x, when=where(x) == Where.INSIDE, do=where(x).to(Where.LEAVES)),
    Row("unlock", choose=x, when=where(x) == Where.LEAVES,
        do=[where(x).to(Where.AWAY), free().to(True)]),
)),), (Always("one_inside", implies((where(x) == Where.INSIDE) & (where(y) == Where.INSIDE),
                                    x.same(y))),),
    configurations={"default": Configuration({Process: 2})})

# ---- Peterson's lock with six places


class At(State):
    A0 = auto()
    A1 = auto()
    A2 = auto()
    A3 = auto()
    INSIDE = auto()
    A4 = auto()


class One(Sort, ordered=True):
    """One of two processes."""


m, n = One("m"), One("n")
two = Machine("two", host=True)
at, wants = two.function("at", At, One), two.relation("wants", One)
turn = two.relation("turn")  # of the second process
has_turn = any_of(m.before(n) & ~turn(), n.before(m) & turn())
PETERSON = System("peterson-six", "Peterson's lock, with a step for each assignment.", (
    Table(two, rows=(
        Row("begin", choose=m, when=at(m) == At.A0, do=at(m).to(At.A1)),
        Row("want", choose=m, when=at(m) == At.A1, do=[at(m).to(At.A2), wants(m).to(True)]),
        *(Row(f"yield_to_{'second' if later else 'first'}", choose=(m, n),
              when=[at(m) == At.A2, m.before(n) if later else n.before(m)],
              do=[at(m).to(At.A3), turn().to(later)]) for later in (True, False)),
        Row("enter", choose=(m, n), do=at(m).to(At.INSIDE), when=[
            at(m) == At.A3, m.differs(n), ~wants(n) | has_turn]),
        Row("leave", choose=m, when=at(m) == At.INSIDE, do=at(m).to(At.A4)),
        Row("end", choose=m, when=at(m) == At.A4, do=[at(m).to(At.A0), wants(m).to(False)]),
    )),), (Always("one_inside", implies(
        (at(m) == At.INSIDE) & (at(n) == At.INSIDE), m.same(n))),),
    configurations={"default": Configuration({One: 2})})

# ---- Termination, seen by nobody in particular


class Node(Sort):
    """A node."""


a, b, o = Node("a"), Node("b"), Node("o")


def _termination(*, messages: bool) -> System:
    net = Machine("net", host=True)
    active = net.relation("active", Node, init=ANY)
    detected = net.relation("detected", init=ANY)
    pending = net.function("pending", Int(0, 3), Node) if messages else None

    def idle(node: Node) -> Formula:
        return ~active(node) & (TRUE if pending is None else pending(node) == 0)

    after = forall(o, a.same(o) | ~active(o)) & (
        forall(o, pending(o) == 0) if pending is not None else TRUE)
    moves = (
        Row("send", choose=(a, b), fair=False, when=active(a) & (pending(b) < 3),
            do=pending(b).to(pending(b) + 1)),
        Row("receive", choose=a, fair=False, when=pending(a) > 0, do=[
            active(a).to(True), pending(a).to(pending(a) - 1)]),
    ) if pending is not None else (
        Row("wake", choose=(a, b), fair=False, when=active(a), do=active(b).to(True)),)
    return System("termination", "Termination is detected at any time after it.", (
        Table(net, rows=(
            Row("stop", choose=a, fair=False, when=active(a), do=active(a).to(False)),
            Row("stop_and_see", choose=a, fair=False, when=[active(a), after],
                do=[active(a).to(False), detected().to(True)]),
            *moves,
            Row("detect", when=forall(a, idle(a)), do=detected().to(True)),
        )),), (Always("right", implies(detected(), forall(a, idle(a)))),
               LeadsTo("detected_at_last", forall(a, idle(a)), detected())),
        init=implies(detected(), forall(a, ~active(a))), final=TRUE,
        configurations={"default": Configuration({Node: 4 if messages else 7})})


# ---- Copies of DNA by heat

tube = Machine("tube")


class Heat(State):
    HOT = auto()
    TOO_HOT = auto()
    WARM = auto()


heat = tube.function("heat", Heat)
primer = tube.function("primer", Int(0, 5), init=5)
dna = tube.function("dna", Int(0, 5), init=5)
template, hybrid = tube.function("template", Int(0, 15)), tube.function("hybrid", Int(0, 5))
DNA = System("dna", "Strands part by heat, and find primers as they cool.", (
    Table(tube, state=heat, rows=(
        Row("heat", at=Heat.HOT, to=Heat.TOO_HOT, do=[
            primer().to(primer() + hybrid()), hybrid().to(0), dna().to(0),
            template().to(template() + hybrid() + 2 * dna())]),
        Row("cool", at=Heat.TOO_HOT, to=Heat.HOT),
        *(Row(f"anneal_{number}", at=Heat.HOT, to=Heat.WARM,
              when=[primer() >= number, template() >= number], do=[
                  primer().to(primer() - number), template().to(template() - number),
                  hybrid().to(hybrid() + number)]) for number in range(1, 6)),
        Row("extend", at=Heat.WARM, to=Heat.HOT, do=[
            dna().to(dna() + hybrid()), hybrid().to(0)]),
    )),), (Always("primers_are_used_up", primer() + hybrid() <= 5),),
    configurations=ALONE)

# ---- Vouchers


class Voucher(Sort):
    """A voucher."""


class Life(State):
    PHANTOM = auto()
    VALID = auto()
    REDEEMED = auto()
    CANCELLED = auto()


v = Voucher("v")
shop = Machine("shop", v)
life = shop.function("life", Life)
VOUCHERS = System("vouchers", "A voucher is issued, and redeemed or cancelled.", (
    Table(shop, state=life, rows=(
        Row("issue", at=Life.PHANTOM, to=Life.VALID),
        Row("redeem", at=Life.VALID, to=Life.REDEEMED),
        Row("cancel", at=Life.VALID, to=Life.CANCELLED)))
    ,), (LeadsTo("ends", TRUE, life(v).among(Life.REDEEMED, Life.CANCELLED)),),
    final=TRUE, configurations={"default": Configuration({Voucher: 3})})

# ---- A writer each of whom reads a neighbour


class Seat(Sort):
    """A process in a circle."""


s, t = Seat("s"), Seat("t")
before = Rigid("before", s, t, given=lambda sizes: {
    (i, (i - 1) % sizes[Seat]) for i in range(sizes[Seat])})
circle = Machine("circle", host=True)
step = circle.function("step", Int(0, 2), Seat)
wrote, read = circle.relation("wrote", Seat), circle.relation("read", Seat)
SIMPLE = System("simple", "Each writes a one, and then reads its neighbour's.", (
    Table(circle, rows=(
        Row("write", choose=s, when=step(s) == 0, do=[wrote(s).to(True), step(s).to(1)]),
        Row("read", choose=(s, t), when=before(s, t) & (step(s) == 1),
            do=[read(s).to(wrote(t)), step(s).to(2)]),
    )),), (Always("someone_reads_a_one", implies(
        forall(s, step(s) == 2), exists(s, read(s)))),),
    final=forall(s, step(s) == 2), configurations={"default": Configuration({Seat: 5})})

# ---- A spanning tree

EDGES = ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4))


class Vertex(Sort, ordered=True):
    """A node of the graph; the first is the root."""


f, g, h = Vertex("f"), Vertex("g"), Vertex("h")
joined = Rigid("joined", f, g, given=lambda _: {
    pair for one, other in EDGES for pair in ((one, other), (other, one))})
graph = Machine("graph", host=True)
FAR = 6
mother, distance = graph.function("mother", Vertex, Vertex), graph.function(
    "distance", Int(0, FAR), Vertex, init=ANY)
root = forall(h, ~h.before(f))
TREE = System("spanning-tree", "Each node finds a neighbour that is nearer to the root.", (
    Table(graph, rows=tuple(
        Row(f"join_at_{number}", choose=(f, g), when=[
            joined(f, g), distance(f) > number, distance(g) + 1 <= number],
            do=[mother(f).to(g), distance(f).to(number)]) for number in range(1, FAR)),),), (),
    init=distance(f) == if_then_else(root, 0, FAR), final=TRUE,
    configurations={"default": Configuration({Vertex: 5})})

# ---- A queue between two channels


class Datum(Sort):
    """A message."""


e = Datum("e")
pipe = Machine("pipe")
incoming, outgoing = pipe.function("incoming", Datum, init=ANY), pipe.function(
    "outgoing", Datum, init=ANY)
flags = {name: pipe.relation(name, init=ANY) for name in ("in_rdy", "in_ack", "out_rdy", "out_ack")}
waiting = pipe.function("waiting", Seq(Datum, most=3))


def quiet(channel: str) -> Formula:
    """What was sent has been acknowledged."""
    rdy, ack = flags[f"{channel}_rdy"](), flags[f"{channel}_ack"]()
    return any_of(rdy & ack, ~rdy & ~ack)


FIFO = System("inner-fifo", "A queue between two channels with handshakes.", (Table(pipe, rows=(
    Row("send", choose=e, when=quiet("in"), do=[
        incoming().to(e), flags["in_rdy"]().to(~flags["in_rdy"]())]),
    Row("buffer_receives", when=~quiet("in") & ~waiting().full, do=[
        waiting().append(incoming()), flags["in_ack"]().to(~flags["in_ack"]())]),
    Row("buffer_sends", when=quiet("out") & ~waiting().empty, do=[
        outgoing().to(waiting().head), waiting().tail(),
        flags["out_rdy"]().to(~flags["out_rdy"]())]),
    Row("receive", when=~quiet("out"), do=flags["out_ack"]().to(~flags["out_ack"]())),
)),), (Always("both_have_data", incoming().is_set & outgoing().is_set),),
    init=all_of(quiet("in"), quiet("out"), incoming().is_set, outgoing().is_set),
    configurations={"default": Configuration({Datum: 3})})

MODELS = (
    Model("CigaretteSmokers", SMOKERS, 6, "published"),
    Model("Moving_Cat_Puzzle, 5 boxes", _cat(5), 30, "published"),
    Model("Moving_Cat_Puzzle, 6 boxes", _cat(6), 48, "published"),
    Model("Prisoners_Single_Switch", _prisoners(known=True), 16, "published"),
    Model("Prisoners_Single_Switch, unknown light", _prisoners(known=False), 62, "published"),
    Model("Barrier", BARRIER, 64, "published"),
    Model("Lock", LOCK, 12, "published"),
    Model("Peterson with auxiliary steps", PETERSON, 42, "published"),
    Model("SyncTerminationDetection", _termination(messages=False), 129, "published"),
    Model("AsyncTerminationDetection", _termination(messages=True), 4_097, "published"),
    Model("glowingRaccoon, clean", DNA, 63, "published"),
    Model("VoucherLifeCycle", VOUCHERS, 64, "published"),
    Model("TeachingConcurrency, Simple", SIMPLE, 723, "published"),
    Model("SpanningTree", TREE, 1_236, "published"),
    Model("InnerFIFO", FIFO, 3_864, "published"),
    Model("Consensus", replace(voting.CONSENSUS, like=voting.CONSENSUS, configurations={
        "default": Configuration({voting.Value: 3})}), 4, "published"),
)
