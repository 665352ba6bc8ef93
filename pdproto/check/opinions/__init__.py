"""Second opinions: the same tables as models of other checkers, and their answers."""
