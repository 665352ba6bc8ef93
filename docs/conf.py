"""The site of the documents: `make docs-site`. A link or an anchor that leads nowhere fails it.

The pages are plain Markdown. The navigation comes from the lists of links on the pages that list
others, so that nothing has to be written for the site alone.
"""

import posixpath
import re

project = "pdproto"
author = "the pdproto contributors"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "proofs/README.md", "kernels/RESULTS.md"]
exclude_patterns = [".*", "out", "build", "dist"]  # not even looked into
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
nitpicky = True
# Diagrams stay text: drawing them needs a script from another site.
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_title = "pdproto"
html_copy_source = False

LISTING = ("docs/index", "docs/reference/tables", "docs/explanation/decisions/index")
PROJECT = ("README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY", "CHANGELOG")


def navigate(_app, name, source):
    """Put the pages that a page lists into the navigation, under the headings of the lists."""
    if name not in LISTING:
        return
    seen = {name, *PROJECT}
    trees = [_tree("Project", PROJECT)] if name == root_doc else []
    for part in re.split(r"^## ", source[0], flags=re.MULTILINE)[name == root_doc:]:
        found = [posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
                 for path in re.findall(r"\]\(([^)#\s]+)\.md\)", part)]
        new = [path for path in dict.fromkeys(found) if path not in seen]
        seen.update(new)
        if new:
            trees.append(_tree(part.splitlines()[0] if name == root_doc else "", new))
    source[0] += "".join(trees)


def _tree(caption, names):
    head = f":caption: {caption}\n" if caption else ""
    entries = "".join(f"/{name}\n" for name in names)
    return f"\n```{{toctree}}\n:hidden:\n{head}\n{entries}```\n"


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", navigate)
