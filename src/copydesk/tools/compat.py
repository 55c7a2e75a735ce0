"""The toolset that stands in for two others that agents know, with their results and words."""

from __future__ import annotations

from functools import partial

from copydesk.tools import compat_editor, compat_files
from copydesk.tools import compat_files as of
from copydesk.tools.catalog import Tool
from copydesk.tools.compat_editor import EDITOR, OLD_EDITOR, TextEditorCall


def compat() -> tuple[Tool, ...]:
    """The catalog's rows: the filesystem server's tools, then the text editor."""
    tool = partial(Tool, toolset="compat", in_full=True, refuse=compat_files.refuse)
    writes = partial(tool, output=of.OUTPUT)
    reads = partial(writes, reads=True)
    return (
        reads("read_text_file", call=of.ReadTextFileCall, aliases=("read_file",)),
        reads("read_media_file", call=of.ReadMediaFileCall, output=of.MEDIA_OUTPUT),
        reads("read_multiple_files", call=of.ReadMultipleFilesCall),
        writes("write_file", call=of.WriteFileCall, destroys=True, idempotent=True),
        writes("edit_file", call=of.EditFileCall, destroys=True),
        writes("create_directory", call=of.CreateDirectoryCall, idempotent=True),
        reads("list_directory", call=of.ListDirectoryCall),
        reads("list_directory_with_sizes", call=of.ListDirectoryWithSizesCall),
        reads("directory_tree", call=of.DirectoryTreeCall),
        writes("move_file", call=of.MoveFileCall, destroys=True),
        reads("search_files", call=of.SearchFilesCall),
        reads("get_file_info", call=of.GetFileInfoCall),
        reads("list_allowed_directories", call=of.ListAllowedDirectoriesCall),
        tool(
            EDITOR,
            call=TextEditorCall,
            destroys=True,
            refuse=compat_editor.refuse,
            aliases=(OLD_EDITOR,),
        ),
    )
