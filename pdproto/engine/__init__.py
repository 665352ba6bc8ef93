"""The data plane: how bytes move from a source into landing chunks that a sink has leased."""
