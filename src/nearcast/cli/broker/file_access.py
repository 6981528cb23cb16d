"""Access permissions of the files that a command writes."""

import os
from pathlib import Path

from nearcast.broker.config.settings import Settings
from nearcast.store.file_access import file_access


def limit_access(settings: Settings) -> None:
    """Apply the `[data]` settings to files of this process and its children; or `StoreError`.

    Spark and its Java process create files of their own: they inherit the umask.
    """
    access = file_access(settings.data.group)
    os.umask(access.umask)
    access.prepare(Path(settings.node.data))
