"""`python -m copydesk` is the command `copydesk`."""

from __future__ import annotations

import sys

from copydesk.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
