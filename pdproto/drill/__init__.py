"""Drills: real processes on one machine that hand over pages, started and watched by a parent."""
