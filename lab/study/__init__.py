"""The processes of a study, which measure the cost of a feature, beside the simulator."""
