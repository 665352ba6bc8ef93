"""Drivers of processes that run a system's tables: they own the sockets and the clock."""
