"""Server lists: the servers of an overlay, and what of a template matters to each (seed C, 7.1.1).

In JSON ``{"servers": [{"name": …, "hostname": …, "port": …, "relevance": vector}]}``; in XML
SERVERs in a SERVERLIST, the vector in `value`.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.policy_xml import PolicyElements, vector_of
from nearcast.core.adaptation.relevance import Levels
from nearcast.core.adaptation.role_vectors import check_lengths

_MEMBERS = ("name", "hostname", "port", "relevance")
LAST_PORT = 65_535


class ListedServer(Struct, frozen=True):
    """One server."""

    name: str
    hostname: str
    port: int
    vector: Levels
    line: int = 0
    """Where XML has it; 0: not from XML."""


class ServerList(Struct, frozen=True):
    """The servers, in the order in which they are listed."""

    servers: tuple[ListedServer, ...]

    def labelled(self) -> Iterator[tuple[str, Levels]]:
        """Yield each vector with a text that says whose it is."""
        for each in self.servers:
            where = f" (line {each.line})" if each.line else ""
            yield f"server {each.name!r}{where}", each.vector


def checked_servers(document: Mapping[str, object], levels: int) -> ServerList:
    """Read a server list from the members of a JSON object; raise AdaptationError."""
    given = document.get("servers")
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    if set(document) != {"servers"} or not is_list or not given:
        raise AdaptationError(f'A server list is {{"servers": [{{{", ".join(_MEMBERS)}}}, …]}}.')
    assert isinstance(given, Sequence)
    return _checked([_server(number, each, levels) for number, each in enumerate(given, 1)])


def servers_from_xml(document: PolicyElements, levels: int) -> ServerList:
    """Read a server list from XML; raise AdaptationError with the line."""
    document.check(document.root, "SERVERLIST", ())
    found = []
    for each in document.children(document.root, "SERVER"):
        document.check(each, "SERVER", ("hostname", "port", "name", "value"))
        if each.children:
            raise document.error("A SERVER holds nothing.", each.children[0])
        hostname, port, name = (each.attributes[one] for one in ("hostname", "port", "name"))
        is_number = port.isdecimal() and port.isascii() and len(port) <= len(str(LAST_PORT))
        if not is_number or not 0 < int(port) <= LAST_PORT:
            raise document.error(f"A port is 1 to {LAST_PORT}, not {port[:40]!r}.", each)
        vector = document.vector(each, levels)
        found.append(ListedServer(name, hostname, int(port), vector, each.line))
    return _checked(found)


def _server(number: int, given: object, levels: int) -> ListedServer:
    where = f"Server {number}"
    if not isinstance(given, Mapping) or set(given) != set(_MEMBERS):
        raise AdaptationError(f"{where} has {', '.join(_MEMBERS)}, and nothing else.")
    name, hostname, port = given["name"], given["hostname"], given["port"]
    if not (isinstance(name, str) and isinstance(hostname, str) and name and hostname):
        raise AdaptationError(f"{where}: name and hostname are texts.")
    if type(port) is not int or not 0 < port <= LAST_PORT:
        raise AdaptationError(f"{where}: a port is a number from 1 to {LAST_PORT}.")
    try:
        return ListedServer(name, hostname, port, vector_of(given["relevance"], levels))
    except AdaptationError as error:
        raise AdaptationError(f"{where}: {error}") from None


def _checked(servers: list[ListedServer]) -> ServerList:
    found = ServerList(tuple(servers))
    names: set[str] = set()
    for each in servers:
        if each.name in names:
            where = f" (line {each.line})" if each.line else ""
            raise AdaptationError(f"There are two servers {each.name!r}{where}.")
        names.add(each.name)
    check_lengths(found.labelled())
    return found
