"""The soak: many agents, people and programs on one workspace for a while, and an observer."""
