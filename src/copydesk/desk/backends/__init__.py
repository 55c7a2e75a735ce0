"""Where state is stored: the protocols of backends, in SQLite, and stored texts."""
