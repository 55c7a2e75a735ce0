"""Notes as blocks: Markdown documents in folders, or in SiYuan's kernel."""
