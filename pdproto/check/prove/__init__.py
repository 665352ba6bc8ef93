"""Proofs for every size: see cutoff.py for the theorem and obligations.py for what is proved."""
