"""Every snippet of Python in the documents runs and prints what it says; links lead somewhere.

The ``python`` blocks of one file run in order in one namespace. What a block prints is compared
with the ``text`` block right after it, or with its own ``# ->`` comments, one for each line.
Blocks may use ``await`` as ``python -m asyncio`` lets one.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import re
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.support.documents import BROKER, DOCUMENTS, FENCE, ROOT, blocks, expected_output, name_of
from tests.support.running_broker import RunningBroker

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)


def run_blocks(document: str, name: str) -> list[str]:
    """Run the Python blocks of a document; return how what they print differs from what is said."""
    found = blocks(document)
    namespace: dict[str, object] = {"__name__": "__main__"}
    wrong: list[str] = []
    with asyncio.Runner() as runner:
        for block, following in zip_longest(found, found[1:]):
            if block.language != "python":
                continue
            # Empty lines before it give a traceback the lines of the file.
            source, flags = "\n" * (block.line - 1) + block.text, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            code = compile(source, name, "exec", flags=flags, dont_inherit=True)
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                outcome = eval(code, namespace)
                if inspect.iscoroutine(outcome):
                    runner.run(outcome)
            said = expected_output(block, following)
            got = [line.rstrip() for line in printed.getvalue().rstrip().splitlines()]
            if said is not None and got != said:
                wrong.append(f"{name}, line {block.line}: says {said}, prints {got}")
    return wrong


def broken_links(path: Path) -> list[str]:
    """Return the links of a document that lead to no file or no heading."""
    prose = without_code(path.read_text(encoding="utf-8"))
    broken = []
    for link in LINK.findall(prose):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{path.name}: {link}")
    return broken


def without_code(document: str) -> str:
    """Return a document without its blocks and code spans, which may look like links."""
    lines, fence = [], ""
    for line in document.splitlines():
        match = FENCE.match(line)
        if not fence and match:
            fence = match[1]
        elif fence:
            fence = "" if line.strip() == fence else fence
        else:
            lines.append(re.sub(r"`[^`]*`", "", line))
    return "\n".join(lines)


def anchors(path: Path) -> set[str]:
    """Return what headings can be linked to, as forges name them."""
    headings = HEADING.findall(path.read_text(encoding="utf-8"))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_snippets_run_and_print_what_they_say(path: Path) -> None:
    document = path.read_text(encoding="utf-8")
    if BROKER not in document:
        assert run_blocks(document, name_of(path)) == []
        return
    # The page says that a broker runs: so one does, on another port.
    broker = RunningBroker()
    try:
        there = document.replace(BROKER, f"mqtt://127.0.0.1:{broker.port}")
        assert run_blocks(there, name_of(path)) == []
    finally:
        broker.stop()


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    assert broken_links(path) == []


def test_the_index_links_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link).resolve() for link in LINK.findall(index.read_text("utf-8"))}
    pages = {path for path in index.parent.rglob("*.md") if path.parent.name != "adr"}
    assert pages - linked - {index} == set()


def test_a_snippet_that_prints_something_else_is_found() -> None:
    one = "```python\nx = 1\n```\n\n```python\nprint(x)  # -> 1\n```\n"
    assert run_blocks(one, "one") == []
    assert run_blocks(one.replace("x = 1", "x = 2"), "one") == [
        "one, line 6: says ['1'], prints ['2']"
    ]
    two = "```python\nprint(1)\nprint(2)\n```\n\n```text\n1\n2\n```\n"
    assert run_blocks(two, "two") == []
    assert run_blocks(two.replace("\n2\n", "\n3\n"), "two") != []
    assert run_blocks(two.replace("\n\n", "\nSome words.\n").replace("\n2\n", "\n3\n"), "two") == []


def test_a_snippet_that_fails_is_found_with_its_line() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_blocks("Words.\n\n```python\n1 / 0\n```\n", "words.md")
    assert caught.traceback[-1].lineno == 3


def test_a_snippet_may_wait_for_something() -> None:
    one = "```python\nimport asyncio\nx = await asyncio.sleep(0, 1)\nprint(x)\n```\n"
    assert run_blocks(one + "\n```text\n1\n```\n", "one") == []
    assert run_blocks(one + "\n```text\n2\n```\n", "one") != []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# One `two` heading\n")
    here = tmp_path / "here.md"
    here.write_text(
        "[a](there.md#one-two-heading) `[b](not.md)` [c](https://example.org) [d](#x)\n"
    )
    assert broken_links(here) == ["here.md: #x"]
    here.write_text("[a](there.md#another) [b](gone.md)")
    assert broken_links(here) == ["here.md: there.md#another", "here.md: gone.md"]
