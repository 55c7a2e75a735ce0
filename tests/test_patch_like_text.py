"""Texts that strongly look like a patch, and those that only seem to a little."""

from __future__ import annotations

import pytest

from copydesk.edit.request import check_no_patch as suspect
from copydesk.errors import SuspiciousDiff
from support.rows import each_row


@each_row(
    "text line",
    [
        ("diff --git a/x b/x\n", 1),
        ("\n\ndiff --git a/x b/x", 3),
        ("*** Begin Patch\n*** Update File: x\n", 1),
        ("*** Begin Patch\r\n", 1),
        ("@@ -1,2 +3,4 @@\n a\n", 1),
        ("x\n@@ -1 +1 @@ def f():\n", 2),
        ("@@ -0,0 +1,5 @@\n", 1),
        ("--- a/x\n+++ b/x\n", 1),
        ("x\n--- x.orig\t2024-01-01\n+++ x\t2024-01-02\n", 2),
        ("--- a/x\r\n+++ b/x\r\n", 1),
        ("--- /dev/null\n+++ b/x", 1),
    ],
)
def test_patches(text: str, line: int) -> None:
    with pytest.raises(SuspiciousDiff) as found:
        suspect(text)
    assert found.value.line == line
    assert found.value.sign


@each_row(
    "text",
    [
        *("", "\n", "plain\n", "- a\n- b\n+ c\n", "---\ntitle: x\n---\n\ntext\n", "+++\nx = 1\n+++\n"),
        *("---\n+++\n", "a\n---\nb\n", "--- x\n\n+++ y\n", "+++ y\n--- x\n", "    diff --git a b\n"),
        *("> diff --git a/x b/x\n", "`@@ -1,2 +3,4 @@`\n", "@@ \n@@\n", "@decorator\n@@x\n"),
        *("*** \n***\n", "*** Begin Patching of the road\n", "diff -u a b\n", "-- a comment\n"),
        *("x diff --git\n", "diff --git\n", "--- a/x\n", "* a\n* b\n", "@@ -a,b +c,d @@\n"),
    ],
)  # fmt: skip
def test_no_patches(text: str) -> None:
    suspect(text)
