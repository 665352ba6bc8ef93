"""Data paths: pages of KV caches that an engine moves."""
