"""The tools: JSON in, reports out."""
