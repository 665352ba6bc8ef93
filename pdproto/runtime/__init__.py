"""The tables at run time: endpoints without I/O, the wire format, and the trace."""
