"""Who only reads what a broker kept does not load what decides."""

import subprocess
import sys
from pathlib import Path

LOADED = """
import sys
import nearcast.store
print(*sorted(name for name in sys.modules if name.startswith("nearcast.core.")))
"""


def test_the_store_does_without_the_engine_and_its_matcher() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = done.stdout.split()
    assert "nearcast.core.model.record" in loaded
    assert "nearcast.core.engine.engine" not in loaded
    assert not [name for name in loaded if name.startswith("nearcast.core.matching")]


WRITES = """
import sys
from pathlib import Path
from nearcast.core.model.event_run import EventRun
from nearcast.core.model.inputs import Moved
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.record import Record
from nearcast.store import RowBuffer, Store
store = Store(Path(sys.argv[1]), "broker")
rows = RowBuffer("broker")
rows.append_run(1, 1.0, EventRun(["a", "b"], "t", "ann", 1.0, None, [b"", b"x"], 0, "", b"", None))
rows.append_record(Record(3, 1.0, Moved("ann", Position(1.0, 2.0))))
store.commit([], rows, now=1.0)
sealed = store.log.seal()
store.log.settle(sealed.write())
store.close()
print(*(name for name in ("pandas", "pyarrow.parquet") if name in sys.modules))
"""


def test_the_log_is_written_without_pandas(tmp_path: Path) -> None:
    """It takes a fifth of a second to load, in the middle of a broker's work."""
    done = subprocess.run(
        [sys.executable, "-c", WRITES, str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["pyarrow.parquet"], done.stderr
