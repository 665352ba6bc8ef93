"""The processes of `pdproto soak`: they hand over for long, with faults at random times."""
