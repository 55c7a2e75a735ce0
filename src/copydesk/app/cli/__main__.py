"""`python -m copydesk.app.cli` is the command `copydesk`."""

import sys

from copydesk.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
