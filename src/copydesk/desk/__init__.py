"""Applying, undoing, recovering and reviewing edits, and their state."""
