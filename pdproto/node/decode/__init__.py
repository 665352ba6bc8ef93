"""A decode node: its parts, receivers, and its staging memory."""
