"""Tables as integers: a state is one integer, and rows are masks over its bits.

The checker explores this form and the runtime runs it, so neither imports the other.
"""
