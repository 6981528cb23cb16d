"""Who only reads what a broker kept does not load what decides."""

import subprocess
import sys

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
