"""The room of notes: blocks of Markdown documents, in folders and in SiYuan's kernel."""
