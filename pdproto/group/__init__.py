"""A group of ranks that take and drop the same requests in the same order."""
