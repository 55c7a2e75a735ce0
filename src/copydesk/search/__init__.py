"""Searches and listings: ripgrep, its options, and what a member may see of folders."""
