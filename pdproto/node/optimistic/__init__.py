"""A prefill server that begins before decode is ready."""
