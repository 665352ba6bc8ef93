"""Tables as integers: where each variable lies in a state, and rows as masks over it.

The checker explores this form and the runtime runs it, so neither imports the other.
"""
