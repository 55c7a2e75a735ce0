"""What many machines share on a Redis or Valkey server: plans, decisions, journal, texts, turns."""
