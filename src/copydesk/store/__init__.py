"""Where documents live: the only room that touches the disk."""
