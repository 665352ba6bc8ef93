"""Who is at fault when an event has no row: we, or the other side."""


class ProtocolError(Exception):
    """The tables do not allow what has happened. Nothing has changed."""


class LocalProtocolError(ProtocolError):
    """This process asked for what it may not do: a mistake of the caller, and loud."""


class RemoteProtocolError(ProtocolError):
    """A peer sent what it may not send: it is dropped and counted, and all others are served."""
