"""The vocabulary of the surfaces: what tools there are, JSON in, reports out."""
