"""Who is there: the same answers from the index as from looking at everyone, page by page."""

from collections.abc import Iterable
from random import Random

import pytest

from nearcast.core.engine.engine import Engine
from nearcast.core.engine.queries.node_query import LOOKED_AT_MOST, FoundNode, NodeQuery, NodeSearch
from nearcast.core.language import parse
from nearcast.core.model import Position, parse_area
from nearcast.core.model.geometry.area_resolution import holds, resolve
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.model.inputs import ContextPatched, Moved
from nearcast.core.model.visibility import SEE_ALL, SEE_IDENTITY


def all_of_it(node: str) -> int:
    return SEE_ALL


def town(seed: int, count: int = 400) -> Engine:
    """Most near each other, some anywhere, some nowhere."""
    chance, engine = Random(seed), Engine()
    for number in range(count):
        name = f"n{number:03}"
        engine.step([ContextPatched(name, {"number": number})], 0.0)
        if number % 10 == 0:
            continue
        if number % 7 == 0:
            at = Position(chance.uniform(-90, 90), chance.uniform(-180, 180))
        else:
            at = Position(chance.gauss(53.35, 0.02), chance.gauss(-6.26, 0.02))
        engine.step([Moved(name, at)], 0.0)
    return engine


def pages(engine: Engine, query: NodeQuery) -> list[FoundNode]:
    found: list[FoundNode] = []
    after: str | None = ""
    while after is not None:
        page = engine.find_nodes(
            NodeQuery(query.viewer, query.area, query.where, query.near, query.most, after),
            all_of_it,
        )
        assert len(page.nodes) <= query.most
        found += page.nodes
        after = page.next
    return found


AREAS = (
    "circle:53.35,-6.26,500", "circle:53.35,-6.26,5000", "circle:0,180,9000000",
    "bbox:53.3,-6.3,53.4,-6.2", "bbox:-90,170,90,-170", "circle:n001,3000",
    "POLYGON((-6.3 53.3, -6.2 53.3, -6.2 53.4, -6.3 53.3))", "bbox:-90,-180,90,180",
)  # fmt: skip


@pytest.mark.parametrize("text", AREAS)
@pytest.mark.parametrize("most", [1, 7, 1000])
def test_an_area_holds_whom_it_holds(text: str, most: int) -> None:
    engine = town(1)
    area = parse_area(text)
    meant = resolve(area, caller=None, position_of=engine.position, places=engine.matcher.places)
    expected = [
        name
        for name in sorted(engine.nodes)
        if (at := engine.position(name)) is not None and holds(meant, at)
    ]
    found = pages(engine, NodeQuery("asker", area, most=most))
    assert [each.node for each in found] == expected


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("most", [1, 10, 200, 1000])
def test_the_nearest_are_the_nearest(seed: int, most: int) -> None:
    engine = town(seed)
    centre = engine.position("n001")
    assert centre is not None
    far = sorted(
        (distance_m(centre.lat, centre.lon, at.lat, at.lon), name)
        for name in engine.nodes
        if (at := engine.position(name)) is not None and name != "n001"
    )
    even = parse("number > 50")
    expected = [FoundNode(name, away) for away, name in far if int(name[1:]) > 50][:most]
    page = engine.find_nodes(NodeQuery("asker", None, even, "n001", most), all_of_it)
    assert list(page.nodes) == expected
    assert page.complete
    assert page.next is None


def test_who_looks_at_an_area_does_not_look_at_everyone() -> None:
    engine = town(2)

    def everyone() -> Iterable[str]:
        raise AssertionError("not all nodes are to be looked at")

    search = NodeSearch(engine.matcher, engine.rights.context, all_of_it)
    area = parse_area("circle:53.35,-6.26,500")
    assert search.find(NodeQuery("asker", area), everyone).nodes
    assert search.find(NodeQuery("asker", near="n001", most=5), everyone).nodes


def test_a_page_looks_at_so_many_and_no_more() -> None:
    engine, looked_at = Engine(), []
    others = [f"x{number:05}" for number in range(3 * LOOKED_AT_MOST)]

    def hidden(node: str) -> int:
        looked_at.append(node)
        return SEE_IDENTITY if node == others[-1] else 0

    page = engine.find_nodes(NodeQuery("asker"), hidden, others)
    assert len(looked_at) == LOOKED_AT_MOST
    assert page.nodes == ()
    assert page.next == others[LOOKED_AT_MOST - 1]


def test_areas_and_nodes_that_are_nowhere_hold_nobody() -> None:
    engine = town(3)
    for query in (
        NodeQuery("asker", parse_area("circle:nobody,500")),
        NodeQuery("asker", parse_area("circle:me,500")),
        NodeQuery("asker", near="n000"),
        NodeQuery("asker", near="me"),
    ):
        assert engine.find_nodes(query, all_of_it).nodes == ()
