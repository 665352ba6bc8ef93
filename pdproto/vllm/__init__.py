"""The KV connector for vLLM: its calls, passed on to nodes that run the tables.

A server of vLLM has two halves of a connector. The scheduler's half (`scheduling.py`) speaks for
whole requests, and hands orders to the worker's half of every rank (`loading.py`, `offering.py`),
which has the node. Modules that need no vLLM import none.
"""
