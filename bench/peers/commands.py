"""Tools that are commands: GNU patch, git apply, GNU sed, and codex's apply_patch."""

from __future__ import annotations

from collections.abc import Callable

from bench.contestant import FILE, Command, Job, Unsupported


class Patch(Command):
    """`patch -p1`."""

    def edit(self, job: Job) -> Callable[[], object]:
        """The job's diff."""
        return lambda: self.run(
            "patch", "-p1", "-s", "--no-backup-if-mismatch", "-i", str(job.patch)
        )


class GitApply(Command):
    """`git apply`, outside of a repository."""

    def edit(self, job: Job) -> Callable[[], object]:
        """The job's diff."""
        return lambda: self.run("git", "apply", "--whitespace=nowarn", str(job.patch))


class Sed(Command):
    """`sed -i`: by line number or by the text of the line."""

    def edit(self, job: Job) -> Callable[[], object]:
        """One edit; in a batch it would try every command on every line."""
        if job.how == "batch":
            raise Unsupported
        return lambda: self.run("sed", "-i", "-f", str(job.script), FILE)

    def read(self, first: int, last: int, total: int) -> Callable[[], str]:
        """A range, and the count of lines as the last line."""
        return lambda: self.run("sed", "-n", f"{first},{last}p;$=", FILE)


class ApplyPatch(Command):
    """codex's binary under the name `apply_patch`. Option: `binary`."""

    def edit(self, job: Job) -> Callable[[], object]:
        """The job's edits in its own form, on standard input."""
        return lambda: self.run(self.options["binary"], stdin=job.envelope)
