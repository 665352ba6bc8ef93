"""The laboratory: what convinces us that pdproto is right. It is no part of the wheel.

`python -m lab` in a clone has the verbs of `pdproto`, and its own: see lab/verbs.
"""
