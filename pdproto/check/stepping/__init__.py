"""A system walked by hand: enabled rows, disabled rows and why, the way to a state, a map."""
