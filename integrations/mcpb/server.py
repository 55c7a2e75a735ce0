"""Starts the server in the bundle's own environment."""

import sys

from copydesk.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
