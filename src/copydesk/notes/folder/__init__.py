"""Notes in a folder of Markdown files; block ids are kept beside the text."""
