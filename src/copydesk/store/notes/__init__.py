"""Where notes live: a folder of Markdown files, or a SiYuan kernel."""
