from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.model.subscription_id import SubscriptionId

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
filters = texts.filter(bool)


@given(texts, filters)
def test_an_id_by_filter_is_read_as_it_was_written(client_id: str, topic_filter: str) -> None:
    id_ = SubscriptionId(client_id, topic_filter)
    assert SubscriptionId.parse(id_.text) == id_
    assert id_.label == id_.key == topic_filter


@given(texts, filters, texts)
def test_an_id_by_name_does_not_depend_on_the_filter(
    client_id: str, topic_filter: str, name: str
) -> None:
    id_ = SubscriptionId(client_id, topic_filter, name)
    assert SubscriptionId.parse(id_.text) == SubscriptionId(client_id, "", name)
    assert id_.label == name


@given(texts, texts, filters, filters)
def test_ids_differ_if_client_or_label_or_kind_does(
    one: str, other: str, topic_filter: str, second: str
) -> None:
    ids = {
        SubscriptionId(client, label if name is None else "", name).text
        for client in (one, other)
        for label in (topic_filter, second)
        for name in (None, label)
    }
    assert len(ids) == len({one, other}) * len({topic_filter, second}) * 2


def test_the_stored_form_is_fixed() -> None:
    assert SubscriptionId("ann", "a/#").text == "ann\0a/#"
    assert SubscriptionId("ann", "a/#", "near").text == "ann\0\0near"
