"""The review page of `copydesk serve`: what waits, what was written, and the decisions.

What lives here: everything that a browser gets, and who may get it. What must
not: a second way to edit (the desk's sentences are the only one), and any import
of this package by the command line before `serve` runs.
"""
