"""Pure decisions: no I/O, no clock of its own, no threads, no globals that change."""
