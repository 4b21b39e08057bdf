"""What a docstring says: the description of a node, and the texts of its ports (Google, NumPy and reST style).

Read by `docstring_parser`, and only when a manifest is asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from docstring_parser import Docstring

__all__ = ["read_docstring"]

#: What the parsers call the sections that hold parameters.
_PARAMETERS = {"param", "parameter", "arg", "argument", "key", "keyword", "other_param"}

#: Google-style sections beside those that the parser knows by itself.
_MORE_SECTIONS = ("Keyword Args", "Keyword Arguments", "Other Parameters")

#: A line that opens a section, so that the description ends before it.
_HEADERS = {
    "args",
    "arguments",
    "attributes",
    "example",
    "examples",
    "keyword args",
    "keyword arguments",
    "other parameters",
    "parameters",
    "params",
    "raises",
    "returns",
    "yields",
}


def read_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """Return (description, text of each parameter) of a docstring.

    The description is the first paragraph, on one line. A docstring that no style fits has no parameter texts.

    Example:
        >>> read_docstring("Scale an image.\\n\\nArgs:\\n    width: in pixels")
        ('Scale an image.', {'width': 'in pixels'})
    """
    best: dict[str, str] = {}
    for parse in _parsers_for(doc):
        from docstring_parser import ParseError

        try:
            params = parse(doc).params
        except ParseError:
            continue
        found = {
            name.strip().lstrip("*"): _one_line(param.description or "")
            for param in params
            for name in param.arg_name.split(",")
            if param.args[0] in _PARAMETERS
        }
        texts = {name: text for name, text in found.items() if text}
        best = texts if len(texts) > len(best) else best
    return _first_paragraph(doc), best


_parsers: list[Callable[[str], Docstring]] = []


def _parsers_for(doc: str) -> list[Callable[[str], Docstring]]:
    """Return the parsers that may find something; most docstrings have no section, and then none is loaded.

    A Google section has a colon at the end of a line, a NumPy section dashes under its title, reST fields begin with
    a colon.
    """
    lines = [line.strip() for line in doc.splitlines()]
    marks = (
        any(line.endswith(":") for line in lines),
        any(line.startswith("---") for line in lines),
        any(line.startswith(":") for line in lines),
    )
    if not any(marks):
        return []
    if not _parsers:
        from docstring_parser import google, numpydoc, rest

        more = [google.Section(title, "param", google.SectionType.MULTIPLE) for title in _MORE_SECTIONS]
        sections = [*google.DEFAULT_SECTIONS, *more]
        _parsers.extend((google.GoogleParser(sections).parse, numpydoc.parse, rest.parse))
    return [parse for parse, is_marked in zip(_parsers, marks, strict=True) if is_marked]


def _first_paragraph(doc: str) -> str:
    """Return the text before the first blank line, section or field."""
    taken: list[str] = []
    for line in doc.strip().splitlines():
        text = line.strip()
        if not text or text.startswith(":") or text.rstrip(":").lower() in _HEADERS:
            break
        taken.append(text)
    return _one_line(" ".join(taken))


def _one_line(text: str) -> str:
    return " ".join(text.split())
