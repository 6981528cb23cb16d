"""Chain messages as bytes: the same for the push of a broker and for each hop between peers.

Addresses take 6 bytes each, or less if few hosts have them all, as when many peers are on a few
machines. What a peer receives is bounded by what a broker would send.
"""

from collections.abc import Sequence

from nearcast.core.propagation.chains.chain_message import ADDRESS_BYTES, ChainMessage
from nearcast.wire.encoding.byte_streams import ByteReader, ByteWriter
from nearcast.wire.encoding.errors import DecodingError

FORM = 1
SIGNATURE_BYTES = 64
LARGEST_CONTENT = 1 << 20
MOST_RECIPIENTS = 65_536
LARGEST_DEGREE = 16
_HOST_BYTES = 4
_LISTED, _BY_HOST = range(2)
_MOST_HOSTS = 256
_LEAST_BY_HOST = 8


def encode_chain(message: ChainMessage) -> bytes:
    """Return a chain message as bytes."""
    out = ByteWriter()
    out.byte(FORM)
    out.byte(message.degree)
    out.number(message.number)
    out.raw(message.signature)
    out.text(message.content)
    _write_addresses(out, message.members)
    return out.result()


def decode_chain(data: bytes) -> ChainMessage:
    """Return the chain message in some bytes; raise `DecodingError` if there is none."""
    reader = ByteReader(data)
    if (form := reader.byte()) != FORM:
        raise DecodingError(f"{form} is no form of a chain message")
    degree = reader.byte()
    if not 0 < degree <= LARGEST_DEGREE:
        raise DecodingError(f"a chain has the degree {degree}")
    number, signature, size = reader.number(), reader.raw(SIGNATURE_BYTES), reader.number()
    if size > LARGEST_CONTENT:
        raise DecodingError(f"a chain message has {size} bytes")
    content, members = reader.raw(size), _read_addresses(reader)
    if reader.left:
        raise DecodingError(f"{reader.left} bytes are left after a chain message")
    return ChainMessage(number, content, members, degree, signature)


def _write_addresses(out: ByteWriter, addresses: Sequence[bytes]) -> None:
    out.number(len(addresses))
    hosts = {address[:_HOST_BYTES] for address in addresses[: 2 * _MOST_HOSTS]}
    if len(addresses) >= _LEAST_BY_HOST and len(hosts) * 2 <= len(addresses[: 2 * _MOST_HOSTS]):
        hosts = {address[:_HOST_BYTES] for address in addresses}
        if len(hosts) <= _MOST_HOSTS and _by_host_size(len(hosts), len(addresses)):
            listed = sorted(hosts)
            places = {host: place for place, host in enumerate(listed)}
            out.byte(_BY_HOST)
            out.number(len(listed))
            out.raw(b"".join(listed))
            out.raw(bytes([places[address[:_HOST_BYTES]] for address in addresses]))
            out.raw(b"".join([address[_HOST_BYTES:] for address in addresses]))
            return
    out.byte(_LISTED)
    out.raw(b"".join(addresses))


def _by_host_size(hosts: int, addresses: int) -> bool:
    """Return whether a list of hosts makes it smaller."""
    return hosts * _HOST_BYTES + 2 < addresses * (_HOST_BYTES - 1)


def _read_addresses(reader: ByteReader) -> tuple[bytes, ...]:
    count = reader.number()
    if count > MOST_RECIPIENTS:
        raise DecodingError(f"a chain has {count} recipients")
    form = reader.byte()
    if form == _LISTED:
        data = reader.raw(count * ADDRESS_BYTES)
        return tuple(_pieces(data, ADDRESS_BYTES))
    if form != _BY_HOST:
        raise DecodingError(f"{form} is no form of addresses")
    hosts = reader.number()
    if hosts > _MOST_HOSTS:
        raise DecodingError(f"a chain has {hosts} hosts")
    listed = _pieces(reader.raw(hosts * _HOST_BYTES), _HOST_BYTES)
    places = reader.raw(count)
    if places and max(places) >= len(listed):
        raise DecodingError("a place is beyond the hosts")
    ports = _pieces(reader.raw(2 * count), 2)
    return tuple([listed[place] + port for place, port in zip(places, ports, strict=True)])


def _pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
