"""Notes in a SiYuan kernel, by its HTTP API."""
