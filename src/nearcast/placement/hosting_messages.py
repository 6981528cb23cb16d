"""What a broker and a node that runs its own scripts tell each other.

The broker keeps scripts, their subscriptions and states; the node makes their calls. All calls of a
script are made there, in one order, and so are the changes of its state.
"""

from msgspec import Struct

from nearcast.placement.worker_messages import CallDone, ScriptCall


class HostedSource(Struct, frozen=True):
    """A script that a node runs."""

    id: str
    version: str
    """Another one after each edit."""
    source: str
    topics: tuple[str, ...]
    """Topic filters without conditions, by which it hears what stays at the node."""
    state: bytes
    """When the node begins to run it."""
    stopped: bool = False


class CallOrders(Struct, frozen=True):
    """Calls that the node is to make."""

    number: int
    id: str
    version: str
    calls: tuple[ScriptCall, ...]


class HostOrders(Struct, frozen=True, omit_defaults=True):
    """From the broker."""

    run: int
    """From the beginning of hosting, or a new connection, to its end; 0: it does not host."""
    scripts: tuple[HostedSource, ...] | None = None
    """All scripts that it runs; None: as before."""
    calls: CallOrders | None = None
    why: str = ""
    """Why it does not host any more."""


class HostReport(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """From the node: what came of calls."""

    run: int
    number: int = 0
    """Of the calls that were ordered; 0: the node made a call by itself."""
    id: str = ""
    """The script of a call that was not ordered, and its version."""
    version: str = ""
    results: tuple[CallDone, ...] = ()
    done: bool = True
    """No more results of this number follow."""
    end: bool = False
    """It hosts no more."""
