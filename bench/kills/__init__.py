"""Writes that are killed, refused or stopped at each of their system calls in turn."""
