"""The processes of `pdproto soak`, which hand over for long, with faults at random times."""
