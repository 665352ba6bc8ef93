"""The KV connector for vLLM. It passes vLLM's calls on to nodes that run the tables.

A vLLM server has two halves of a connector. The scheduler's half handles whole requests, and gives
orders to the worker's half of every rank, which has the node. Both halves of prefill are in
`offering.py`, those of decode in `loading.py`. Only modules that need vLLM import it.
"""
