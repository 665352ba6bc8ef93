"""The registry of prefill ranks: its server, its clients, and the JSON between them."""
