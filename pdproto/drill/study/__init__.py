"""The processes of `pdproto study`: they measure the cost of a feature, beside the simulator."""
