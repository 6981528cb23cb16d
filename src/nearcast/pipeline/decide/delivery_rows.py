"""Decided rows of deliveries: one row for each event, with all its recipients."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.core.engine.delivery.deliveries import Deliveries
from nearcast.core.engine.delivery.judged_copies import JudgedCopies
from nearcast.core.engine.delivery.string_pair_table import Texts
from nearcast.core.matching.tables import I32, I64
from nearcast.core.model.event import Event
from nearcast.pipeline.decide.decided_schema import (
    DELIVERY,
    IDS,
    JUDGED,
    PROPERTIES,
    RECIPIENT,
    RECIPIENTS,
    Columns,
    decided_batch,
)
from nearcast.pipeline.decide.plain_events import PlainEvents, different_words, qos_of
from nearcast.pipeline.decide.player import PlayedDeliveries
from nearcast.store import weighted_filter_bytes
from nearcast.store.rows.message_headers import columns_of

Json = dict[str, object]


def delivery_batch(broker: str, played: PlayedDeliveries) -> pa.RecordBatch:
    """Return the decided rows of some deliveries."""
    rows = played.deliveries.rows
    copies = np.flatnonzero(rows.starts)
    """The first row of each copy."""
    places = rows.event[copies]
    firsts = np.flatnonzero(np.diff(places, prepend=-1))
    """The first copy of each event."""
    events, count = played.deliveries.events, len(firsts)
    if isinstance(events, PlainEvents):
        columns = _plain_columns(events, places[firsts], played)
    else:
        own = [events[place] for place in places[firsts].tolist()]
        columns = _event_columns(own, played)
        columns["seq"] = [played.seqs[place] for place in places[firsts].tolist()]
        ingested = [float(played.ingested[place]) for place in places[firsts].tolist()]
        columns["ingested"] = ingested
        columns["urgency"] = _urgencies(own, ingested)
    columns |= {
        "kind": pa.repeat(DELIVERY, count),
        "recipients": _recipients(played.deliveries, played.names, copies, firsts),
        "recorded": pa.repeat(played.recorded, count),
    }
    if played.judged is not None:
        columns["judged"] = _judged(played, played.judged, places[firsts])
    return decided_batch(broker, count, columns)


def _event_columns(events: list[Event], played: PlayedDeliveries) -> Columns:
    at = [event.position for event in events]
    headers = [columns_of(event.headers) if event.headers else ((), None) for event in events]
    return {
        "id": [event.id for event in events],
        "subject": [event.subject for event in events],
        "publisher": [event.publisher for event in events],
        "session": [event.session for event in events],
        "time": [event.time for event in events],
        "lat": [None if each is None else each.lat for each in at],
        "lon": [None if each is None else each.lon for each in at],
        "at_given": [event.at_given for event in events],
        "payload": [event.payload for event in events],
        "properties": [
            [{"name": name, "value": value} for name, value in pairs] or None
            for pairs, _ in headers
        ],
        "headers": [raw for _, raw in headers],
        "qos": [event.qos for event in events],
        "retain": [event.retain for event in events],
        "valid_s": [event.valid_s for event in events],
        "expires": [event.expires_at for event in events],
        "object": [event.object for event in events],
        "gathered": [event.gathered or None for event in events],
        "elsewhere": [played.elsewhere.fits(event.subject) for event in events],
    }


def _urgencies(events: list[Event], ingested: Sequence[float]) -> list[Json | None]:
    """What each publisher said of priority and deadline; None if nothing."""
    return [
        None
        if event.priority is None and event.deadline_s is None
        else {
            "priority": event.priority,
            "raises": event.raises,
            "deadline": None if event.deadline_s is None else at + event.deadline_s,
        }
        for event, at in zip(events, ingested, strict=True)
    ]


def _plain_columns(events: PlainEvents, places: I32, played: PlayedDeliveries) -> Columns:
    """The event columns of plain events, taken from their rows."""
    count = len(places)
    taken = events.rows.select(_TAKEN).take(pa.array(places))
    subjects, subject = different_words(taken["subject"])
    elsewhere = np.array([played.elsewhere.fits(each) for each in subjects], np.bool_)
    lat, lon = taken["lat"], taken["lon"]
    if lat.null_count or lon.null_count:
        known = pc.and_(pc.is_valid(lat), pc.is_valid(lon))
        nowhere = pa.scalar(None, pa.float64())
        lat, lon = pc.if_else(known, lat, nowhere), pc.if_else(known, lon, nowhere)
    return {
        "id": taken["event_id"],
        "subject": taken["subject"],
        "publisher": taken["publisher"],
        "session": pa.repeat("", count),
        "time": taken["time"],
        "lat": lat,
        "lon": lon,
        "at_given": pa.repeat(False, count),
        "payload": pc.fill_null(taken["payload"], b""),
        "properties": _properties(taken["properties"]),
        "headers": taken["headers"],
        "qos": qos_of(taken),
        "retain": pa.repeat(False, count),
        "elsewhere": pa.array(elsewhere[subject]) if count else None,
        "seq": taken["seq"],
        "ingested": taken["ingested"],
    }


_TAKEN = [
    "seq", "event_id", "subject", "publisher", "time", "ingested", "lat", "lon", "properties",
    "payload", "headers", "data",
]  # fmt: skip


def _recipients(
    deliveries: Deliveries, names: tuple[Texts, Texts] | None, copies: I64, firsts: I64
) -> pa.Array:
    """The list of recipients of each event."""
    rows = deliveries.rows
    if names is None:
        everyone = deliveries.recipients
        sessions = pa.array([everyone[row].owner for row in copies.tolist()], pa.string())
        ids = pa.array([each.subscriptions[0].id for each in everyone], pa.string())
    else:
        sessions, ids = map(_strings, names)
    recipients = pa.StructArray.from_arrays(
        [
            sessions,
            pa.ListArray.from_arrays(_ends(copies, len(rows.event)), ids, type=IDS),
            pa.array(rows.priority[copies]),
            pa.repeat(deliveries.replayed, len(copies)),
        ],
        fields=list(RECIPIENT),
    )
    return pa.ListArray.from_arrays(_ends(firsts, len(copies)), recipients, type=RECIPIENTS)


def _judged(played: PlayedDeliveries, judged: JudgedCopies, places: I32) -> pa.Array:
    """For each event the judged subscriptions, those together that were judged alike."""
    rows = played.deliveries.rows
    # In the order of what they say: the same however the events were decided.
    weightings = [(weighted_filter_bytes(where), levels) for where, levels in judged.weightings]
    ordered = sorted(weightings)
    place = {each: number for number, each in enumerate(ordered)}
    weighting = np.array([place[each] for each in weightings], np.int64)[judged.weighting]
    keys = (rows.event[judged.row].astype(np.int64), weighting, judged.true, judged.false)
    order = np.lexsort(keys[::-1])
    columns = [each[order] for each in keys]
    changes = np.logical_or.reduce([np.diff(each, prepend=each[:1] - 1) != 0 for each in columns])
    begins = np.flatnonzero(changes)
    event, weighting, true, false = (each[begins] for each in columns)
    filters = pa.array([each for each, _ in ordered])
    levels = pa.array([levels for _, levels in ordered], pa.list_(pa.int32()))
    groups = pa.StructArray.from_arrays(
        [
            filters.cast(pa.binary()).take(pa.array(weighting)),
            levels.take(pa.array(weighting)),
            pa.array(true),
            pa.array(false),
            pa.ListArray.from_arrays(
                _ends(begins, len(order)), _subscriptions(played, judged.row[order])
            ),
        ],
        fields=list(JUDGED.value_type),
    )
    # Events come in the order of their places; those without a judged copy have null.
    starts = np.searchsorted(event, places)
    nothing = ~np.isin(places, event)
    return pa.ListArray.from_arrays(
        _ends(starts, len(event)), groups, type=JUDGED, mask=pa.array(nothing)
    )


def _subscriptions(played: PlayedDeliveries, rows: I64) -> pa.Array:
    """The ids of the subscriptions of some rows."""
    if played.names is not None:
        return _strings(played.names[1]).take(pa.array(rows))
    everyone = played.deliveries.recipients
    return pa.array([everyone[row].subscriptions[0].id for row in rows.tolist()], pa.string())


def _ends(starts: I64, end: int) -> I32:
    return np.append(starts, end).astype(np.int32)


def _strings(texts: Texts) -> pa.Array:
    buffers = [None, pa.py_buffer(texts.ends), pa.py_buffer(texts.data)]
    return pa.Array.from_buffers(pa.string(), len(texts.ends) - 1, buffers)


def _properties(pairs: pa.Array) -> pa.Array:
    """User properties; empty lists become null."""
    if pairs.null_count < len(pairs):
        none = pa.scalar(None, pairs.type)
        pairs = pc.if_else(pc.equal(pc.list_value_length(pairs), 0), none, pairs)
    return pairs if pairs.type == PROPERTIES else pairs.cast(PROPERTIES)
