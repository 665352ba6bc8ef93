"""The proofs that all processes of one test run share: an equal obligation is proved once.

Systems with the same tables have equal obligations, and so has a system without one of its rows.
"""

from pathlib import Path

folder: Path | None = None  # tests/shared_answers.py names it; outside of a run nothing is kept
