"""Who may read the files that a command writes."""

import os
from pathlib import Path

from nearcast.broker.config.settings import Settings
from nearcast.store.file_access import file_access


def limit_access(settings: Settings) -> None:
    """Let what this process and its children write be as `[data]` says, or raise `StoreError`.

    Spark and its Java process make files of their own: they inherit the umask.
    """
    access = file_access(settings.data.group)
    os.umask(access.umask)
    access.prepare(Path(settings.node.data))
