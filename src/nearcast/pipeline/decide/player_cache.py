"""Compiled players on disk, so that a process need not build the indexes of a snapshot again.

A file beside a snapshot has the player that follows from it. Arrays are stored in their memory
layout; a file of this machine is mapped, so that each process copies only the pages that it
changes. It is only a
cache: one of another release is ignored, and so is one that cannot be read. The files are trusted
like the broker's own directory.
"""

import gc
import hashlib
import mmap
import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from typing import BinaryIO

import msgspec
from msgspec import Struct

from nearcast.pipeline.decide.player import Player
from nearcast.store.durable_files import put_in_place
from nearcast.store.object_paths import AnyPath, ObjectPath

ALIGNED = 64
MAGIC = b"nearcast player\n"


class Head(Struct, frozen=True):
    """The header of a file: its release and seq, and the positions of its parts."""

    release: str
    seq: int
    value: int
    """Size in bytes of the pickled data without arrays."""
    arrays: list[tuple[int, int]]
    """Offset and size of each array."""


@cache
def release() -> str:
    """A digest of the code of players; a compiled one is used only if it is the same."""
    package = files("nearcast")
    digest = hashlib.sha256()
    for room in ("pipeline/decide", "pipeline/source", "core"):
        for source in _sources(package.joinpath(*room.split("/"))):
            digest.update(source)
    return digest.hexdigest()


def _sources(package: Traversable) -> Iterator[bytes]:
    """Yield the sources of a package's modules, also from a zip archive."""
    for item in sorted(package.iterdir(), key=lambda each: each.name):
        if item.is_dir():
            yield from _sources(item)
        elif item.name.endswith(".py"):
            yield item.read_bytes()


def save_compiled(path: AnyPath, player: Player) -> None:
    """Write a player."""
    if isinstance(path, ObjectPath):
        whole = BytesIO()
        _write(whole, player)
        path.write_bytes(whole.getbuffer())
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            _write(file, player)
        put_in_place(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def load_compiled(path: AnyPath) -> Player | None:
    """Return a player that this release wrote; None if there is none."""
    try:
        return _read(path)
    except (OSError, ValueError, msgspec.MsgspecError, EOFError, pickle.PickleError):
        return None


def _write(file: BinaryIO, player: Player) -> None:
    buffers: list[pickle.PickleBuffer] = []
    with _no_garbage():
        value = pickle.dumps(player, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    # The offsets of arrays depend on the length of the header, which contains these offsets.
    room = 1 << 12
    while True:
        head = Head(release(), player.seq, len(value), _laid_out(room + len(value), views))
        told = msgspec.json.encode(head)
        if len(MAGIC) + 8 + len(told) <= room:
            break
        room *= 2
    file.write(MAGIC + len(told).to_bytes(4, "big") + room.to_bytes(4, "big") + told)
    file.seek(room)
    file.write(value)
    for (at, _), view in zip(head.arrays, views, strict=True):
        file.seek(at)
        file.write(view)


def _laid_out(start: int, views: Sequence[memoryview]) -> list[tuple[int, int]]:
    found = []
    for view in views:
        start = -(-start // ALIGNED) * ALIGNED
        found.append((start, view.nbytes))
        start += view.nbytes
    return found


def _read(path: AnyPath) -> Player | None:
    mapped: mmap.mmap | bytearray
    if isinstance(path, ObjectPath):
        mapped = bytearray(path.read_bytes())
    else:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    if mapped[: len(MAGIC)] != MAGIC:
        return None
    at = len(MAGIC)
    length, room = (int.from_bytes(mapped[at + i : at + i + 4], "big") for i in (0, 4))
    head = msgspec.json.decode(mapped[at + 8 : at + 8 + length], type=Head)
    if head.release != release():
        return None
    whole = memoryview(mapped)
    arrays = [whole[start : start + size] for start, size in head.arrays]
    with _no_garbage():
        player = pickle.loads(whole[room : room + head.value], buffers=arrays)
    assert isinstance(player, Player)
    if isinstance(mapped, mmap.mmap):
        # The pickled part is not needed again: only its whole pages, which no array shares.
        pages = head.value // mmap.PAGESIZE * mmap.PAGESIZE
        if pages and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED, room, pages)
    return player


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Pause garbage collection while millions of objects are made, none of which is garbage."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
