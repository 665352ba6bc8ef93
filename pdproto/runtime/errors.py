"""Errors for events that the tables do not allow: this process or a peer is at fault."""


class ProtocolError(Exception):
    """The tables do not allow an event. Nothing has changed."""


class LocalProtocolError(ProtocolError):
    """The caller made a call that the tables do not allow: a mistake in this process."""


class RemoteProtocolError(ProtocolError):
    """A peer sent bytes or a message that it may not send. The node drops the batch and counts it.
    """
