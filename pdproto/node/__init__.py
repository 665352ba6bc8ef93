"""Nodes without I/O: values and the time go in, effects come out.

The modules here are of every node. `prefill`, `decode` and `optimistic` import them, and not each
other.
"""
