"""Reports of a check: one module for each format, each a pure function of a CheckResult."""
