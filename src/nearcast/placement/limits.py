"""What a script may be and use, whoever runs it."""

SOURCE_BYTES = 64 << 10
STATE_BYTES = 64 << 10
ARGS_BYTES = 64 << 10
CALL_EVENTS = 100
"""Events that one call may publish."""
CALL_OUTPUT_BYTES = 256 << 10
CALL_QUESTIONS = 100
"""Contexts of different nodes that one call may read."""
CALL_STEPS = 1_000_000
"""Instructions of the interpreter."""
CALL_S = 1.0
"""The interpreter is asked to stop a call after this time; see `KILL_AFTER_S`."""
KILL_AFTER_S = 1.5
"""A worker that has said nothing for so long is killed: not every operation can be interrupted."""
CALL_MEMORY_BYTES = 64 << 20
BRACKETS = 200
"""Nested brackets in a source: the parser recurses, and would break the process."""
CALLS_DEEP = 100
"""Nested calls of functions."""
FAILURES = 3
"""A script stops after so many failed calls in a row, until it is edited."""
CHAIN_EVENTS = 8
"""Events of scripts that follow from each other; scripts do not hear the last one."""
BROKE = (
    f"it used more than {CALL_MEMORY_BYTES >> 20} MiB of memory, or nested something so deeply "
    "that the interpreter broke"
)
"""What is said of a call that the interpreter, or its process, did not survive."""
