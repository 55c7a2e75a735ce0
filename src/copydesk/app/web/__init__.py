"""The review page of `copydesk serve`; the command line imports it only when it serves."""
