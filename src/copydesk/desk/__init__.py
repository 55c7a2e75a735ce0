"""State over time: the sentences of the domain, and what they remember."""
