"""The control socket: garbage, long lines, half lines and many connections.

Whatever others say there, who asks properly gets an answer.
"""

import asyncio
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from msgspec import Struct

from nearcast.broker.operations.control import LONGEST, NAME, Control
from tests.support.fuzzing.fuzz_target import FuzzTarget
from tests.support.fuzzing.mutations import HOSTILE_TEXTS, mutated_bytes

ANSWERED_WITHIN_S = 30.0


class Talk(Struct, frozen=True, array_like=True):
    """What is said on one connection: `ends` if the client then says that this is all."""

    data: bytes
    ends: bool = True


EXAMPLES = {
    "lists in lists": (Talk(b"[" * 50_000 + b"\n"),),
    "a line that is too long": (Talk(b'{"do": "' + b"x" * (2 * LONGEST) + b'"}\n'),),
    "a name that cannot be one": (Talk(b'{"do": ["echo"]}\n'), Talk(b'{"do": {"echo": 1}}\n')),
    "half lines on many connections": tuple(Talk(b'{"do"', False) for _ in range(20)),
}


class ControlTarget(FuzzTarget[tuple[Talk, ...]]):
    """Several clients of one socket at the same time."""

    name = "control"
    suite_cases = 400
    examples = EXAMPLES

    @contextmanager
    def opened(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="nearcast-") as folder, asyncio.Runner() as runner:
            self._runner = runner
            self._path = Path(folder) / NAME
            self._unexpected: list[str] = []
            control = Control(self._path, {"echo": _echo, "fail": _fail})
            runner.get_loop().set_exception_handler(
                lambda loop, context: self._unexpected.append(repr(context))
            )
            runner.run(control.start())
            yield
            runner.run(control.stop())

    def generate(self, random: Random) -> tuple[Talk, ...]:
        return tuple(_talk(random) for _ in range(random.choice((1, 1, 3, 12))))

    def check(self, case: tuple[Talk, ...]) -> None:
        self._runner.run(self._talk(case))
        unexpected, self._unexpected = self._unexpected, []
        assert not unexpected, unexpected

    async def _talk(self, case: tuple[Talk, ...]) -> None:
        opened = [await asyncio.open_unix_connection(str(self._path)) for _ in case]
        answers = [
            self._answer(reader, writer, talk)
            for (reader, writer), talk in zip(opened, case, strict=True)
        ]
        await asyncio.gather(*answers)
        reader, writer = await asyncio.open_unix_connection(str(self._path))
        request = Talk(b'{"do": "echo", "text": "still here"}\n')
        assert await self._answer(reader, writer, request) == {"answer": {"text": "still here"}}
        for _, other in opened:
            other.close()
        for _ in range(3):  # let the server notice
            await asyncio.sleep(0)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, talk: Talk
    ) -> object:
        """Say something, and return the answer if there must be one."""
        with suppress(ConnectionError):  # it was answered before all was said
            writer.write(talk.data)
            await writer.drain()
            if talk.ends:
                writer.write_eof()
        if not talk.ends and b"\n" not in talk.data and len(talk.data) <= LONGEST:
            return None
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                line = await reader.readline()
        except ConnectionError:
            # A socket that is closed before all is read is reset.
            assert len(talk.data) > LONGEST
            return None
        finally:
            writer.close()
        answer = json.loads(line)
        assert answer.keys() in ({"answer"}, {"error"}), answer
        return answer


async def _echo(about: Mapping[str, object]) -> object:
    return about


async def _fail(about: Mapping[str, object]) -> object:
    raise ValueError("as asked")


def _talk(random: Random) -> Talk:
    members: dict[str, object] = {"do": random.choice(("echo", "fail", "forget", "", 5, None, []))}
    members[random.choice(HOSTILE_TEXTS)] = random.choice((1, "x", None, [[]], {"a": {}}))
    data = json.dumps(members).encode()
    if random.random() < 0.5:
        data = mutated_bytes(random, data)
    match random.randrange(12):
        case 0:
            data = data * random.choice((2, 1_000, 4_000))
        case 1:
            data = random.choice((b"[", b'{"a":')) * random.choice((900, 1_100, 10_000))
        case 2:
            data = random.randbytes(random.randint(0, 200))
        case 3:
            data = b'{"do": "echo", "n": ' + b"9" * random.choice((100, 4_400, 60_000)) + b"}"
    if random.random() < 0.8:
        data += b"\n"
    return Talk(data, random.random() < 0.7)
