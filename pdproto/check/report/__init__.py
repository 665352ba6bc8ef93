"""What a check found, drawn: one module per format, each a pure function of a CheckResult."""
