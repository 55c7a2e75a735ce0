"""Block diffs of notes: grammar, plans on a tree of blocks, and slices."""
