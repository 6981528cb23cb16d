"""A node accepts encoded payloads and decodes them by itself."""

from pathlib import Path

import msgspec
import zstandard

from nearcast.wire.encoding.content_codings import Dictionary
from tests.client.api.nodes import node, texts, versions
from tests.client.servers import nearcast, run

TABLE = msgspec.json.encode([{"number": each, "word": "again"} for each in range(200)]).decode()
SMALL = [msgspec.json.encode({"speed": each, "street": "quays"}).decode() for each in range(600)]


@versions
def test_a_node_reads_what_was_published(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server:
            trained = zstandard.train_dictionary(1_024, [each.encode() for each in SMALL])
            dictionary = Dictionary(1, trained.as_bytes())
            server.hub.state.dictionaries.replace((("small", dictionary),))
            reader, writer = node(server, "reader", version), node(server, "writer")
            async with reader, writer, reader.subscribe("#") as events:
                said = [TABLE, "short", "long " * 1_000]
                for each in said:
                    await writer.publish("news", each, qos=1)
                for each in SMALL[:3]:
                    await writer.publish("small", each)
                assert await texts(events, 6) == [*said, *SMALL[:3]]
                assert reader.statistics().received == 6

    run(work())
