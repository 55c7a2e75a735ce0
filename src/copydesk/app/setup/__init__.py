"""Setting copydesk up in the clients that are in use."""
