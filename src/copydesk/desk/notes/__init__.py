"""What is asked of notes: reading by blocks, diffs of blocks, new documents, taking back."""
