"""`python -m lab bench`: the speed of pack and unpack on the user's own machine."""
