"""The source of a script, as far as it is checked before a parser sees it.

The parser recurses for every bracket, so that a source of brackets alone would break its process.
Texts and comments are skipped here as Starlark reads them.
"""

import re

from nearcast.placement.errors import ScriptError
from nearcast.placement.limits import BRACKETS, SOURCE_BYTES

_TOKEN = re.compile(
    r"""
    \#[^\n]*
    | (?:"{3}(?:[^"\\]|\\.|"(?!""))*(?:"{3}|\Z))
    | (?:'{3}(?:[^'\\]|\\.|'(?!''))*(?:'{3}|\Z))
    | (?:"(?:[^"\\\n]|\\.)*(?:"|\n|\Z))
    | (?:'(?:[^'\\\n]|\\.)*(?:'|\n|\Z))
    | [()\[\]{}]
    """,
    re.VERBOSE | re.DOTALL,
)


def check_source(source: str) -> None:
    """Raise `ScriptError` if a source is empty, too long or too deeply nested."""
    size = len(source.encode())
    if not source.strip():
        raise ScriptError("the source is empty; define on_event(event, state) or run(args, state)")
    if size > SOURCE_BYTES:
        raise ScriptError(f"the source has {size} bytes; at most {SOURCE_BYTES} are taken")
    depth = 0
    for found in _TOKEN.finditer(source):
        text = found[0]
        if text in "([{":
            depth += 1
            if depth > BRACKETS:
                line = source.count("\n", 0, found.start()) + 1
                raise ScriptError(f"line {line}: more than {BRACKETS} brackets are nested")
        elif text in ")]}":
            depth -= 1
