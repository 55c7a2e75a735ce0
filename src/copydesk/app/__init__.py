"""The ways in: the command line, the MCP servers, the review page, the library."""
