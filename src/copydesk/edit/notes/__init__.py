"""Block diffs of notes: their grammar, what they become on a tree of blocks, and slices."""
