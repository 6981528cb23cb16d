"""The columns of the log, in the words of Spark."""

LOG_SCHEMA = (
    "broker string, seq long, kind string, ingested double, schema int, event_id string, "
    "subject string, publisher string, time double, lat double, lon double, node string, "
    "properties array<struct<name: string, value: string>>, payload binary, headers binary, "
    "data string"
)
