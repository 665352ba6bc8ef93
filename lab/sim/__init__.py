"""The runtime in a simulated cluster: virtual time, faults, and one seed that replays a run."""
