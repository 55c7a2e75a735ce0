"""Where documents live: the only package that reads or writes them on disk."""
