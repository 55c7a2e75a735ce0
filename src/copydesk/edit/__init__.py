"""Requests, places, drafts and plans. Pure."""
