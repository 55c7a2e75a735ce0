"""Operations on notes: read blocks, apply block diffs, create documents, undo."""
