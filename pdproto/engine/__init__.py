"""Engines: they move bytes from a source into memory that a sink has leased to it."""
