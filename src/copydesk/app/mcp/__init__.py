"""The MCP server: its transports, resources and questions to the user of a client."""
