"""Where state is kept: the stores as protocols, in SQLite, on Redis, and remembered texts."""
