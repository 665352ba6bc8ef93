"""The proofs for all sizes: one claim a file, named by the claim (README.md)."""
