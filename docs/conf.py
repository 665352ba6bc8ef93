"""The site of the documents: `make docs-site`. A link or an anchor that leads nowhere fails it.

The pages are plain Markdown. The navigation comes from the lists of links on the pages that list
others, so that nothing has to be written for the site alone. Below each list of the Python API
come the signatures and docstrings of what it names.
"""

import importlib
import inspect
import pathlib
import posixpath
import re

project = "pdproto"
author = "the pdproto contributors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "proofs/README.md", "kernels/RESULTS.md"]
exclude_patterns = [".*", "out", "build", "dist"]  # not even looked into
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # not every type in a signature is public
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
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


TABLES = "docs/reference/tables"


def link_tables(app, name, source):
    """Link each system to its page, of which Git has only some."""
    made = {path.stem for path in (pathlib.Path(app.srcdir) / "docs" / "tables").glob("*.md")}
    if name == TABLES:
        source[0] = re.sub(
            r"^\* `([\w-]+)`:",
            lambda found: (f"* [{found[1]}](../tables/{found[1]}.md):" if found[1] in made
                           else found[0]),
            source[0], flags=re.MULTILINE)


API = "docs/reference/python-api"


def document_objects(_app, name, source):
    """Put the docstrings of the objects that a list of the Python API names below the list."""
    if name == API:
        source[0] = re.sub(r"(?:^\* `.*\n)+", _with_docstrings, source[0], flags=re.MULTILINE)


def _with_docstrings(listed):
    names = re.findall(r"^\* `([\w.]+)`", listed[0], flags=re.MULTILINE)
    directives = "".join(f".. {_directive(name)}:: {name}\n" for name in names)
    return f"{listed[0]}\n```{{eval-rst}}\n{directives}```\n"


def _directive(name):
    home, _, attribute = name.rpartition(".")
    found = getattr(importlib.import_module(home), attribute)
    return "autoclass" if inspect.isclass(found) else "autofunction"


def plain_to_rst(_app, _what, _name, _object, _options, lines):
    """Docstrings are plain text: `x` is code, and an indented block is an example or a list."""
    told = []
    for number, line in enumerate(lines):
        indented = line.startswith(" ") and not line.isspace()
        before = lines[number - 1] if number else ""
        if indented and not before.startswith(" "):
            told += [*([""] if before else []), "::", ""]
        elif not indented and before.startswith(" ") and line:
            told.append("")
        told.append(line if indented else _escaped(line))
    lines[:] = told


def _escaped(line):
    """Text in which only what stands between backticks means something."""
    parts = re.split(r"`([^`]*)`", line)
    return "".join(f"``{part}``" if number % 2 and part else re.sub(r"([*|_\\`])", r"\\\1", part)
                   for number, part in enumerate(parts))


def _tree(caption, names):
    head = f":caption: {caption}\n" if caption else ""
    entries = "".join(f"/{name}\n" for name in names)
    return f"\n```{{toctree}}\n:hidden:\n{head}\n{entries}```\n"


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", link_tables)  # before its links are listed
    app.connect("source-read", navigate)
    app.connect("source-read", document_objects)
    app.connect("autodoc-process-docstring", plain_to_rst)
