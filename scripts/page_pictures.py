"""Make the pictures of the review page in `docs/img` anew: `python scripts/page_pictures.py`.

They are the screenshots of the browser test that looks at each view, so they show what is tested.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEST = "tests/test_page_browser.py::test_each_view_fits_and_can_be_used_by_all"
VIEWS = (
    *("pending", "review", "column", "conflict", "together", "picture", "changes", "change"),
    *("history", "edit", "trends", "help", "sign-in"),
)
LOOKS = ("light", "dark")
NARROW = {"review": "review-narrow", "pending": "pending-narrow", "change": "change-narrow"}
"""Views on a phone, with the names of their pictures."""


def main() -> int:
    """Run the test and copy its screenshots."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "COPYDESK_SHOTS": folder}
        command = [sys.executable, "-m", "pytest", "-q", "-m", "slow", TEST]
        status = subprocess.run(command, cwd=ROOT, env=environment).returncode
        shots = {f"{view}-{look}-1400": f"{view}-{look}" for view in VIEWS for look in LOOKS}
        shots |= {f"{view}-light-390": name for view, name in NARROW.items()}
        shots |= {"change-light-1400-zh": "change-zh"}
        for shot, name in shots.items():
            shutil.copyfile(Path(folder) / f"{shot}.png", ROOT / "docs/img" / f"{name}.png")
    return status


if __name__ == "__main__":
    sys.exit(main())
