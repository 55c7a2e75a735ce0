"""Where state is stored: the stores as protocols, in SQLite, on Redis, and stored texts."""
