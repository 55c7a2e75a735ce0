"""Where state is stored: the protocol of backends, SQLite and Redis, and stored texts."""
