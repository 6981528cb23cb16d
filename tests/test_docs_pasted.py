"""The Python of the documents works as typed: pasted, block by block, into a real interpreter.

That is stricter than running it. An empty line ends an indented block at a prompt, a statement
after one needs that empty line, and `await` at the prompt needs `python -m asyncio`.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import BROKER, DOCUMENTS, Block, blocks, expected_output, name_of
from tests.support.running_broker import RunningBroker

PROMPTS = re.compile(r"^(?:(?:>>>|\.\.\.) )+", re.MULTILINE)
SYNTAX = re.compile(r"^\w*(?:SyntaxError|IndentationError).*$", re.MULTILINE)
# Of a prompt it is top-level: not inside a function, nor part of a longer word.
AWAITS = re.compile(r"^(?:\w+ = )?await |^(?:    )?await ", re.MULTILINE)
WITH_PYTHON = [path for path in DOCUMENTS if "```python\n" in path.read_text(encoding="utf-8")]
PROGRAM = "asyncio.run("


def paste(code: list[str], *, awaiting: bool) -> str:
    """Type blocks of code into an interpreter, Enter after each; return what it answers."""
    module = ["-m", "asyncio"] if awaiting else ["-i", "-q"]
    ran = subprocess.run(
        [sys.executable, *module],
        input="\n".join(f"{each}\n" for each in code),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return PROMPTS.sub("", ran.stdout) + PROMPTS.sub("", ran.stderr)


def is_within(said: list[str], got: list[str]) -> bool:
    """Whether all that is said is there, in order; a prompt shows values of expressions besides."""
    rest = iter(got)
    return all(line in rest for line in said)


def told(code: list[Block], found: list[Block]) -> list[str]:
    """Return the lines that a page says these blocks print, in order."""
    following = dict(zip((block.line for block in found), [*found[1:], None], strict=True))
    return [line for each in code for line in expected_output(each, following[each.line]) or ()]


def check_pasted(document: str) -> None:
    """Paste a page's blocks; programs of their own into interpreters of their own."""
    found = blocks(document)
    code = [block for block in found if block.language == "python"]
    awaiting = any(AWAITS.search(block.text) and PROGRAM not in block.text for block in code)
    # No loop can be started inside that of `python -m asyncio`.
    programs = [block for block in code if awaiting and PROGRAM in block.text]
    session = [block for block in code if block not in programs]
    for together, waits in ((session, awaiting), *(([each], False) for each in programs)):
        answer = paste([block.text for block in together], awaiting=waits)
        assert not SYNTAX.findall(answer), answer
        assert "Traceback" not in answer, answer
        said, got = told(together, found), [line.rstrip() for line in answer.splitlines()]
        assert is_within(said, got), f"{said} is not in {got}"


@pytest.mark.parametrize("path", WITH_PYTHON, ids=name_of)
def test_python_of_a_page_can_be_pasted(path: Path) -> None:
    document = path.read_text(encoding="utf-8")
    if BROKER not in document:
        check_pasted(document)
        return
    broker = RunningBroker()
    try:
        check_pasted(document.replace(BROKER, f"mqtt://127.0.0.1:{broker.port}"))
    finally:
        broker.stop()


@pytest.mark.parametrize(
    ("code", "answers"),
    [
        ("def one():\n    x = 1\n\n    return x\n", "IndentationError"),
        ("if True:\n    x = 1\nprint(x)\n", "SyntaxError"),
        ("for x in (1,):\n    await x\n", "SyntaxError"),
    ],
)
def test_what_a_prompt_does_not_take_is_found(code: str, answers: str) -> None:
    assert answers in "".join(SYNTAX.findall(paste([code], awaiting=False)))


def test_a_prompt_takes_await_with_asyncio() -> None:
    answer = paste(
        ["import asyncio\nfor x in (1, 2):\n    await asyncio.sleep(0, x)\n", "3"], awaiting=True
    )
    assert is_within(["1", "2", "3"], answer.splitlines())
