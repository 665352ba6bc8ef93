"""The checker: it knows no protocol, only ground rows over packed states."""
