"""The command line: one small module per verb. Results on stdout, progress on stderr."""
