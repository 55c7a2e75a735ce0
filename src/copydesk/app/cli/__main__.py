"""`python -m copydesk.app.cli` is the command `copydesk`."""

import sys

from copydesk.app.cli import main

sys.exit(main())
