"""The algebra of bytes: pure values, no disk, no clock."""
