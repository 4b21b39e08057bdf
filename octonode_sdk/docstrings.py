"""What a docstring says: the description of a node, and the texts of its ports (Google, NumPy and reST style).

Read by `docstring_parser`, and only when a manifest is asked for.
"""

from __future__ import annotations

__all__ = ["read_docstring"]


def read_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """Return (description, text of each parameter) of a docstring.

    The description is the first paragraph, on one line. A docstring that no style fits has no parameter texts.
    """
    if not doc.strip():
        return "", {}
    import docstring_parser

    found: dict[str, str] = {}
    description = ""
    for style in (
        docstring_parser.DocstringStyle.GOOGLE,
        docstring_parser.DocstringStyle.NUMPYDOC,
        docstring_parser.DocstringStyle.REST,
    ):
        try:
            parsed = docstring_parser.parse(doc, style)
        except docstring_parser.ParseError:
            continue
        texts = {
            name.strip().lstrip("*"): _one_line(param.description or "")
            for param in parsed.params
            for name in param.arg_name.split(",")
            if param.args[:1] in (["param"], ["parameter"], ["arg"], ["argument"], ["key"], ["keyword"])
        }
        texts = {name: text for name, text in texts.items() if text}
        if len(texts) > len(found) or not description:
            found = texts if len(texts) > len(found) else found
            description = _one_line(parsed.short_description or "")
    return _first_paragraph(doc) or description, found


def _first_paragraph(doc: str) -> str:
    """Return the text before the first blank line, unless the docstring starts with a section or a field."""
    paragraph = doc.strip().split("\n\n")[0]
    return "" if paragraph.startswith(":") else _one_line(paragraph)


def _one_line(text: str) -> str:
    return " ".join(text.split())
