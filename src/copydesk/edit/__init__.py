"""What may be asked, and what it becomes: requests, places, drafts, plans. Pure."""
