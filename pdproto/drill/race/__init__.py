"""Real nodes on which the race of a defect is arranged: `pdproto handoff --bug`."""
