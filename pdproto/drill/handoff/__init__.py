"""The processes of `pdproto handoff`, which hand over a list of requests and verify every byte."""
