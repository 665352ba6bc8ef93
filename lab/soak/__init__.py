"""The processes of `python -m lab soak`, which hand over for long, with faults at random times."""
