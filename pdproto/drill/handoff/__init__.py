"""The processes of `pdproto handoff`: they hand over a list of requests, and verify every byte."""
