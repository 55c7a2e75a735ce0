"""What is started: the command line, the MCP servers, the library's front door."""
