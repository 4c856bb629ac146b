"""Text of strangers, made harmless where it is shown: one function for each kind of output.

Names, texts, labels and paths come from files that others made. In pages Jinja2 escapes whatever
is inserted, after `on_screen` (`report/html.py`).
"""

from __future__ import annotations

import os
import re
from typing import Any

from mncover.types import visible

# What a cell starts with if spreadsheets compute it.
FORMULA = (*"=+-@\t\r\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")

_COMMAND = re.compile(r"^([^\S\n]*):(?=:)|##(?=(?:vso)?\[)", re.MULTILINE)
_MARKDOWN = re.compile(r"[\\`*_{}\[\]()#+!|~^=-]")
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BREAK = "&#8203;"  # a space without width: ends names and addresses, and nobody sees it


def on_screen(text: str) -> str:
    """Return a text that a terminal only shows; in the log of a build it gives no commands."""
    shown = visible(text)
    return in_build_log(shown) if on_build_server() else shown


def on_a_line(text: str) -> str:
    r"""Return the same on a single line.

    >>> on_a_line("a name\nof two lines")
    'a name\\nof two lines'
    """
    return on_screen(text.replace("\n", "\\n"))


def on_build_server() -> bool:
    """Return whether what is printed is read by GitHub Actions or Azure Pipelines."""
    return bool(os.environ.get("GITHUB_ACTIONS") or os.environ.get("TF_BUILD"))


def in_build_log(text: str) -> str:
    r"""Return a text in which a build server finds no commands: `::name::` and `##[name]`.

    >>> print(in_build_log("::error::no ##[group]"))
    \::error::no #\#[group]
    """
    return _COMMAND.sub(lambda m: "#\\#" if m[0] == "##" else f"{m[1]}\\:", text)


def in_markdown(text: str) -> str:
    r"""Return a text that Markdown and HTML leave as it is, on one line.

    Nobody is notified, nothing becomes a link, a reference or a formula.

    >>> print(in_markdown("*ask* @jo about #12"))
    \*ask\* @&#8203;jo about \#&#8203;12
    """
    flat = visible(" ".join(text.split()))
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    flat = _MARKDOWN.sub(r"\\\g<0>", flat)
    flat = flat.replace("$", "<span>$</span>").replace("@", f"@{_BREAK}")
    flat = flat.replace("://", f":{_BREAK}//").replace("\\#", f"\\#{_BREAK}")
    flat = re.sub(r"(?i)\b(www\.|gh\\-|mailto:|xmpp:)", rf"\1{_BREAK}", flat)
    return re.sub(r"\b([0-9a-f]{6})(?=[0-9a-f]+\b)", rf"\1{_BREAK}", flat)  # names of commits


def as_code(text: str) -> str:
    """Return lines as a block of code in Markdown, in which nothing has a meaning.

    It may be printed into the log of a build as well.
    """
    text = in_build_log(visible(text))
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}\n"


def in_cell(value: Any) -> Any:
    """Return what stands in a cell of a CSV file; an apostrophe stops it from being computed."""
    if not isinstance(value, str):
        return value
    return visible(f"'{value}" if value.startswith(FORMULA) else value)


def in_figure(text: str) -> str:
    r"""Return a text that matplotlib draws as it is, on one line: no formula, nothing unseen.

    >>> print(in_figure("from $5\nto $6"))
    from \$5 to \$6
    """
    return visible(" ".join(text.split())).replace("$", "\\$")


def in_xml(text: str) -> str:
    """Return a text that XML can hold, and whoever prints the XML; what is neither is written out.

    Tags and quotes are for the writer to escape.
    """
    return _NOT_XML.sub("\ufffd", visible(text))
