"""Generated ids: they differ, and tell nobody how many others there are."""

from itertools import islice, pairwise
from random import Random

from nearcast.broker.ingest.random_ids import ID_BYTES, random_ids
from tests.support.clients.talker import Talker, told
from tests.support.running_broker import RunningBroker


def test_no_two_are_the_same() -> None:
    found = list(islice(random_ids(), 10_000))
    assert len(set(found)) == len(found)
    assert {len(each) for each in found} == {2 * ID_BYTES}


def test_a_seed_gives_the_same_again() -> None:
    first, second = (random_ids(Random(7).randbytes) for _ in range(2))
    assert list(islice(first, 1_000)) == list(islice(second, 1_000))


def test_what_others_publish_does_not_show_in_ids(broker: RunningBroker) -> None:
    ann, ben = Talker(broker, "ann"), Talker(broker, "ben")
    ann.wants("mine", meta="1")
    ids = []
    for _ in range(8):
        ann.says("mine")
        (got,) = ann.gets()
        ids += told(got)["nc-id"]
        ben.says("other")
    # Of ids that count, or begin with the time of start, most digits would be the same.
    alike = [sum(a == b for a, b in zip(*both, strict=True)) for both in pairwise(ids)]
    assert max(alike) < ID_BYTES


def test_the_names_of_clients_that_gave_none_do_not_count_either(broker: RunningBroker) -> None:
    answers = [broker.client("").connack.properties for _ in range(3)]
    names = [each.assigned_client_identifier or "" for each in answers]
    assert len({name.removeprefix("auto-")[:8] for name in names}) == 3
