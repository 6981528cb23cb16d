"""Zstandard frames: compressed and decompressed within a bound.

The size that a frame declares is never trusted: a frame is decompressed piece by piece until the
bound is reached.
"""

from functools import lru_cache

import zstandard

from nearcast.wire.encoding.budget import LARGEST_DECODED
from nearcast.wire.encoding.errors import DecodingError

LEVEL = 3
"""Higher levels leave out the statistics of a dictionary, and make small messages larger."""
_LARGEST_WINDOW = 1 << 23


def compress(data: bytes) -> bytes:
    """Return one standard frame."""
    return _compressor().compress(data)


def compress_bare(data: bytes, trained: bytes = b"") -> bytes:
    """Return a frame without magic number, size and dictionary id, which the reader knows."""
    return _bare_compressor(trained).compress(data)


def decompress(data: bytes, most: int = LARGEST_DECODED) -> bytes:
    """Return the content of one standard frame."""
    return _decompressed(zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW), data, most)


def decompress_bare(data: bytes, trained: bytes = b"", most: int = LARGEST_DECODED) -> bytes:
    """Return the content of a frame of `compress_bare`."""
    return _decompressed(_bare_decompressor(trained), data, most)


def _decompressed(decompressor: zstandard.ZstdDecompressor, data: bytes, most: int) -> bytes:
    try:
        with decompressor.stream_reader(data) as reader:
            found = reader.read(most + 1)
            is_whole = not found or len(found) > most or not reader.read(1)
    except (zstandard.ZstdError, MemoryError) as error:
        raise DecodingError(f"this is no zstd frame: {error}") from None
    if len(found) > most or not is_whole:
        raise DecodingError(f"the payload would exceed {most} bytes when decompressed")
    return found


@lru_cache(1)
def _compressor() -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=LEVEL)


@lru_cache(64)
def _bare_compressor(trained: bytes) -> zstandard.ZstdCompressor:
    dictionary = _dictionary(trained) if trained else None
    bare = zstandard.ZstdCompressionParameters.from_level(
        LEVEL,
        format=zstandard.FORMAT_ZSTD1_MAGICLESS,
        write_content_size=False,
        write_dict_id=False,
    )
    return zstandard.ZstdCompressor(dict_data=dictionary, compression_params=bare)


@lru_cache(64)
def _bare_decompressor(trained: bytes) -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(
        dict_data=_dictionary(trained) if trained else None,
        max_window_size=_LARGEST_WINDOW,
        format=zstandard.FORMAT_ZSTD1_MAGICLESS,
    )


@lru_cache(64)
def _dictionary(trained: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(trained)
