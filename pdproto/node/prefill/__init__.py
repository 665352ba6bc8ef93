"""A prefill node: its parts and senders, and how rooms are bound to them."""
