"""Shared state on a Redis or Valkey server: plans, decisions, journal, snapshots, locks."""
