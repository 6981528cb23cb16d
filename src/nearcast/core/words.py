"""Words by number: text that lies together, for hosts that take thousands of them at once.

A word that is put in place of another is written behind all others; the old one stays until
there are more old ones than others. Word k is `data[offsets[k]]` to `data[offsets[k + 1] - 1]`.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nearcast.core.matching.tables import I32, Scalar, enough, resized


class Words:
    """UTF-8 text by number."""

    def __init__(self, words: Sequence[str]) -> None:
        """Number words from 0 on."""
        self.count = 0
        """How many there are, old ones too."""
        self.offsets: I32 = np.zeros(len(words) + 1, np.int32)
        self.data: npt.NDArray[np.uint8] = np.zeros(1, np.uint8)
        self._where: I32 = np.zeros(0, np.int32)
        self._write(range(len(words)), words)

    def where(self, numbers: I32) -> I32:
        """Which word each number has."""
        return self._where[numbers]

    def put(self, number: int, word: str) -> None:
        """Give a number this word."""
        self._write((number,), (word,))
        if self.count > 64 + 2 * len(self._where):
            self._tidy()

    def _write(self, numbers: Sequence[int], words: Sequence[str]) -> None:
        texts = [word.encode() for word in words]
        count, begin = self.count, int(self.offsets[self.count])
        ends = begin + np.cumsum([len(text) for text in texts], dtype=np.int64)
        most = int(ends[-1]) if len(ends) else begin
        assert most < 1 << 31, "all words together take less than 2 GiB"
        self.data = _grown(self.data, most)
        self.offsets = _grown(self.offsets, count + len(texts) + 1)
        self._where = _grown(self._where, max(numbers, default=-1) + 1)
        self.data[begin:most] = np.frombuffer(b"".join(texts), np.uint8)
        self.offsets[count + 1 : count + 1 + len(texts)] = ends
        self._where[list(numbers)] = np.arange(count, count + len(texts), dtype=np.int32)
        self.count += len(texts)

    def _tidy(self) -> None:
        """Leave old words out."""
        offsets, data = self.offsets.tolist(), self.data.tobytes()
        words = [data[offsets[k] : offsets[k + 1]].decode() for k in self._where.tolist()]
        self.count = 0
        self._write(range(len(words)), words)


def _grown(array: npt.NDArray[Scalar], most: int) -> npt.NDArray[Scalar]:
    return resized(array, enough(len(array), most))
