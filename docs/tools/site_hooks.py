"""What `mkdocs build` does beyond mkdocs.yml: pages from the root, and no page that loads from elsewhere."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
FROM_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
LOADS = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)")
INLINE_CODE = re.compile(r"<code>[^<]*</code>")
log = logging.getLogger("mkdocs.hooks.site")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages that lie at the root of the repository, their links as seen from docs/."""
    for page, source in FROM_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    r"""In a table git hosts read `\|` inside of code as a bar; the site's Markdown would show the backslash."""
    return INLINE_CODE.sub(lambda code: code[0].replace(r"\|", "|"), html)


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Whatever a page loads must lie in the site; a warning, which strict makes an error."""
    for address in LOADS.findall(output):
        log.warning("%s loads %s", page.file.src_uri, address)
    return output
