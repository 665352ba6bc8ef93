"""Replay traces of real runs against the tables: verify.py gives the answer."""
