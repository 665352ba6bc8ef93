"""Nodes without I/O: values and the time go in, effects come out."""
