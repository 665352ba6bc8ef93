"""Real nodes on which the race of a defect is arranged: `python -m lab race`."""
