"""The words of which the mistakes are made."""

from pdproto.spec.language import Call, Int, Machine, Message, Row, Seq, Sort, State, Table, auto


class Worker(Sort):
    """A process that writes."""


class Other(Sort):
    """Another sort."""


class Place(Sort, ordered=True):
    """A place in a channel."""


class Phase(State):
    IDLE = auto()
    WAITING = auto()
    WRITING = auto()


w, v, o = Worker("w"), Worker("v"), Other("o")
worker, pool = Machine("worker", w), Machine("pool")
phase = worker.function("phase", Phase)
lent = pool.relation("lent", Worker)
queue, tries = pool.function("queue", Seq(Worker, most=3)), pool.function("tries", Int(0, 5))
ask = Message("ask", w, sender=worker, receiver=pool)
give = Message("give", w, sender=pool, receiver=worker)
note = Message("note", w, sender=worker, receiver=pool, fifo=Place)
told = Message("told", w, o, sender=worker, receiver=pool, fifo=Place)
hello = Message("hello", w, sender=worker, receiver=worker)
writing = phase(w) == Phase.WRITING
begin = Row("begin", on=Call("begin"), at=Phase.IDLE, to=Phase.WAITING, send=[ask(w)])
TABLES = (Table(worker, state=phase, rows=(begin,)), Table(pool))
LOSS = Table(Machine("net", world=True))


def of_worker(*rows: Row) -> tuple[Table, Table]:
    return Table(worker, state=phase, rows=rows), Table(pool)


def of_pool(*rows: Row) -> tuple[Table, Table]:
    return Table(worker, state=phase), Table(pool, rows=rows)
