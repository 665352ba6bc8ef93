"""Traces of SGLang's own managers, as release 0.5.23 has them: see install.py."""
