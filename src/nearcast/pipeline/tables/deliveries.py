"""The table `deliveries`: the recipients and priorities of each event, one row per event.

Also the deliveries that brokers leave to the pipeline to decide, for the sink.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from nearcast.core.model.subscription_id import SEPARATOR
from nearcast.pipeline.decide.decisions import DELIVERY, DUE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def deliveries(decided: "DataFrame") -> "DataFrame":
    """Return the recipients of events; `seq` is the event's row, null for an earlier live event."""
    return decided.where(F.col("kind") == DELIVERY).select(
        "broker",
        "seq",
        F.col("id").alias("event_id"),
        "subject",
        "publisher",
        "time",
        "ingested",
        F.expr("array_min(transform(recipients, each -> each.priority))").alias("priority"),
        F.size("recipients").alias("count"),
        F.transform("recipients", _recipient).alias("recipients"),
        "elsewhere",
    )


def _recipient(recipient: "Column") -> "Column":
    """A recipient with the filters or names of its subscriptions instead of ids."""
    # `SubscriptionId.label` as an expression of Spark.
    names = F.transform(
        recipient["subscriptions"], lambda each: F.substring_index(each, SEPARATOR, -1)
    )
    return recipient.withField("subscriptions", names)


def to_send(decided: "DataFrame") -> "DataFrame":
    """Return the deliveries that brokers are to send, with the columns of the sink.

    Also when something leaves by time alone, which the sink keeps.
    """
    to_brokers = (F.col("kind") == DELIVERY) & F.col("elsewhere")
    return decided.where(to_brokers | (F.col("kind") == DUE)).select(
        "broker", "kind", "id", "subject", "publisher", "session", "time", "lat", "lon",
        "at_given", "payload", "properties", "headers", "qos", "retain", "expires", "recipients",
        "urgency", "judged", "gathered",
    )  # fmt: skip
