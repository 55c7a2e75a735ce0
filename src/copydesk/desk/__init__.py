"""The domain's operations and their state."""
