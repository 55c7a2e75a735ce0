"""Pages of the site that stand elsewhere in the repository; a hook of MkDocs.

The README is the first page. Manuals, change log and results of the benchmark are taken from where
they are, and links between all of them are turned into links of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
MANUALS = "src/copydesk/app/manuals"
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "bench/RESULTS.md": "benchmark.md",
}
HOSTED = re.compile(
    r"https://(?:github\.com/copydesk/copydesk/blob|raw\.githubusercontent\.com/copydesk/copydesk)/main/"
)
"""What the links of the README begin with, so that they work where the package is shown."""
_OWN = re.compile(
    rf"{HOSTED.pattern}((?:docs/|bench/RESULTS|[CS][HOE]\w+\.md|src/[^)\s]*\.md)[^)\s]*)"
)
"""Such a link to a page of the site."""

_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")


def moved() -> dict[str, str]:
    """From the path in the repository to the one on the site."""
    manuals = {
        path.relative_to(ROOT).as_posix(): f"manuals/{path.relative_to(ROOT / MANUALS).as_posix()}"
        for path in sorted((ROOT / MANUALS).rglob("*.md"))
        if path.name != "instructions.md"
    }
    plots = {
        f"bench/plots/{one.name}": f"img/{one.name}" for one in (ROOT / "bench/plots").iterdir()
    }
    return {**ELSEWHERE, **manuals, **plots}


MOVED = moved()
_HOME = b"---\ntemplate: home.html\ntitle: copydesk\nhide: [navigation, toc]\n---\n\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in `docs`."""
    for source, target in MOVED.items():
        content = (ROOT / source).read_bytes()
        if target == "index.md":  # its head is drawn by scripts/site/home.html
            content = _HOME + content[content.index(b"## Start") :]
        files.append(File.generated(config, target, content=content))
    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
    rows = "".join(f"- [{title_of(path)}]({path.name})\n" for path in decisions)
    index = f"# Decisions\n\nWhat was hard to decide, and why it is as it is.\n\n{rows}"
    files.append(File.generated(config, "decisions/index.md", content=index))
    return files


def title_of(page: Path) -> str:
    """The first heading."""
    return page.read_text("utf-8").partition("\n")[0].lstrip("# ")


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Links as the repository has them, as the site has them."""
    here = page.file.src_uri
    source = next((old for old, new in MOVED.items() if new == here), f"docs/{here}")

    def link(found: re.Match[str]) -> str:
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1]))
        target = MOVED.get(meant, meant.removeprefix("docs/"))
        target += "/index.md" * (target == "decisions")
        return posixpath.relpath(target, posixpath.dirname(here) or ".")

    def own(found: re.Match[str]) -> str:
        return posixpath.relpath(found[1], posixpath.dirname(source) or ".")

    return _LINK.sub(link, _OWN.sub(own, markdown))


_EXAMPLE = re.compile(r"^>>> .*(?:\n.+|\n(?=\n>>> ))*", re.MULTILINE)


class Examples(griffe.Extension):
    """Examples in docstrings are code."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        """Put a fence around each."""
        if obj.docstring is not None:
            fenced = r"```pycon\n\g<0>\n```"
            obj.docstring.value = _EXAMPLE.sub(fenced, obj.docstring.value)
