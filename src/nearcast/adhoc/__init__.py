"""Nodes without a broker on real networks: multicast sockets, and the node that programs use.

The package is a name of `nearcast` and so is the function that makes a node: once this is imported,
`nearcast.adhoc` is this module, which is called as that function.
"""

import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> object:  # noqa: ANN401  # as `adhoc`
        from nearcast.adhoc.adhoc_node import adhoc

        return adhoc(*arguments, **options)


sys.modules[__name__].__class__ = _CallableModule
