"""The XML of a URDF as ROS reads it. Knows no ROS.

urdfdom reads with tinyxml2, which knows no namespaces and no encodings. It accepts a bare `&`, `--` in a comment, a
blank line before the declaration, and anything after a NUL or the end of the robot. Complete parsers of XML refuse such
files, of which there are many.
"""

from __future__ import annotations

import html
import re
from xml.etree.ElementTree import Element

_NAME = r"[^\W\d][\w:.\-]*"
_ATTRIBUTE = rf"""({_NAME})\s*=\s*("[^"]*"|'[^']*')"""
_ATTRIBUTES = re.compile(rf"\s*{_ATTRIBUTE}")
_SKIPPED = re.compile(r"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[.*?\]\]>|<!(?!--|\[CDATA\[)[^>]*>", re.DOTALL)
"""Comments, declarations and literal text, which contain no elements."""
_TAG = re.compile(rf"""<(/?)\s*({_NAME})((?:\s*{_ATTRIBUTE.replace("(", "(?:")})*)\s*(/?)\s*>""")


def element_in(text: str) -> Element:
    """Return the first element of a text with its children; names keep their prefixes.

    Raises ValueError with the error and its line.
    """
    text = text.partition("\0")[0]
    place, parents = text.find("<"), []
    while place >= 0:
        skipped, tag = _SKIPPED.match(text, place), _TAG.match(text, place)
        if skipped is not None:
            place = text.find("<", skipped.end())
            continue
        if tag is None:
            raise ValueError(f"line {_line(text, place)}: {text[place : place + 20].split()[0]!r} begins no element")
        ends, name, attributes, is_whole = tag.groups()
        if not ends:
            parents.append(_element(name, attributes, text, place))
        elif not parents or parents[-1].tag != name:
            expected = f"</{parents[-1].tag}>" if parents else "an element"
            raise ValueError(f"line {_line(text, place)}: expected {expected}, got </{name}>")
        if ends or is_whole:
            complete = parents.pop()
            if not parents:
                return complete
            parents[-1].append(complete)
        place = text.find("<", tag.end())
    raise ValueError(f"it ends before </{parents[0].tag}>" if parents else "there is no element in it")


def _element(name: str, attributes: str, text: str, place: int) -> Element:
    given = [(key, html.unescape(value[1:-1])) for key, value in _ATTRIBUTES.findall(attributes)]
    if len(found := dict(given)) < len(given):
        twice = next(key for key in found if [one for one, _ in given].count(key) > 1)
        raise ValueError(f"line {_line(text, place)}: {twice} is given twice in {name}")
    return Element(name, found)


def _line(text: str, place: int) -> int:
    return 1 + text.count("\n", 0, place)
