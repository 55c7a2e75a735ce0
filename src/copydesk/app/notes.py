"""The notes of a workspace: a configured SiYuan kernel, else folders of Markdown files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from copydesk.app.config import Config
from copydesk.desk.member import Permission
from copydesk.store.state import StateFolder
from copydesk.text.relpath import RelPath

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from copydesk.desk.notes.notebook_access import OpenNotes
    from copydesk.store.access import Rules
    from copydesk.store.files import Files

KERNEL = "siyuan:"
"""The first part of the paths of documents in a kernel, as access lists name them."""


class NotesOpener:
    """Opens the notes of a workspace. `state` keeps ids; without it a temporary folder does.

    Nothing is imported, read or sent before the first call.
    """

    def __init__(self, config: Config, files: Files, state: StateFolder | None) -> None:
        self._config, self._files, self._state = config, files, state
        self._own: TemporaryDirectory[str] | None = None

    def open(self, permission: Permission) -> OpenNotes:
        """The notes as a member with this permission sees them."""
        if self._config.notes.siyuan_url:
            return kernel_home(self._config)
        return self._folders(cast("Rules", permission))

    def close(self) -> None:
        """Remove the temporary folder of ids."""
        if self._own is not None:
            self._own.cleanup()

    def _folders(self, rules: Rules) -> OpenNotes:
        from copydesk.desk.notes.notebook_access import OpenNotes
        from copydesk.edit.notes.draft import split_as
        from copydesk.edit.notes.grammar import is_address, is_siyuan_id
        from copydesk.store.notes.folder import FolderStore, check_links_in, located_in, several
        from copydesk.store.soon import Soon

        settings = self._config.notes
        stores = [
            FolderStore(
                self._files,
                RelPath.parse(folder),
                rules,
                self._kept(),
                name="" if folder != "." else self._files.root.rstrip("/").rpartition("/")[2],
                profile=settings.profile,
                exclude=settings.exclude,
                gitignore=settings.gitignore,
                later=Soon(),
            )
            for folder in settings.notebooks
        ]
        roots = {
            store.notebooks()[0].id: RelPath.parse(folder)
            for store, folder in zip(stores, settings.notebooks, strict=True)
        }

        def path_of(box: str, path: str) -> RelPath:
            return RelPath.parse(path) if path else roots[box]

        split = split_as(settings.profile)
        return OpenNotes(
            several(stores),
            split,
            lambda text: is_siyuan_id(text) or is_address(text),
            path_of,
            in_files=True,
            located=partial(located_in, stores),
            check_links=partial(check_links_in, stores),
        )

    def _kept(self) -> str:
        """The folder of ids and fingerprints."""
        if self._state is not None:
            return self._state.folder("notes")
        if self._own is None:
            from tempfile import TemporaryDirectory

            self._own = TemporaryDirectory(prefix="copydesk-notes-")
        return self._own.name


def kernel_home(config: Config) -> OpenNotes:
    """The notes in the configured kernel. Nothing is sent yet."""
    from copydesk.desk.notes.notebook_access import OpenNotes
    from copydesk.edit.notes.draft import split_as
    from copydesk.edit.notes.grammar import is_siyuan_id
    from copydesk.store.notes.kernel import KernelStore

    store = KernelStore.at(config.notes.siyuan_url, config.notes.siyuan_token)
    return OpenNotes(store, split_as("siyuan"), is_siyuan_id, kernel_path, in_files=False)


def kernel_path(box: str, path: str) -> RelPath:
    """The path of a document in a kernel, or of a notebook."""
    return RelPath((KERNEL, box, *(part for part in path.split("/") if part)))
