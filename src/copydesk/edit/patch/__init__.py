"""Patches as models and programs write them: three languages, one kind of result."""
