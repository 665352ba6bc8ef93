"""Mutants of the tables measure the properties: see trials.py."""
