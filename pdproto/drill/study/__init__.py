"""The processes of `pdproto study`, which measure the cost of a feature, beside the simulator."""
