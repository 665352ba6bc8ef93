"""Chunks whose elements travel as fp8. No data path makes one: a hand-over changes no byte."""
