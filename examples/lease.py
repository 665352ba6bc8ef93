"""A lease that one client has at a time: `pdproto check examples/lease.py:SYSTEM`."""

from pdproto.spec import language as spec


class Client(spec.Sort):
    """A process that asks for the lease."""


c, d = Client("c"), Client("d")
server = spec.Machine("server")
held = server.relation("held", Client)
free = spec.forall(d, ~held(d))
grant = spec.Row("grant", on=spec.Call("ask", c), when=free, do=[held(c).to(True)])
back = spec.Row("give_back", on=spec.Call("done", c), when=held(c), do=[held(c).to(False)])
one_holder = spec.Always("one_holder", spec.implies(held(c) & held(d), c.same(d)))
somebody = spec.Sometimes("a_client_holds_it", held(c))
SYSTEM = spec.System(
    "lease", "A lease that one client has at a time.",
    tables=(spec.Table(server, rows=(grant, back)),),
    properties=(one_holder, somebody),
    final=free,
    configurations={"default": spec.Configuration({Client: 3})},
)  # fmt: skip
