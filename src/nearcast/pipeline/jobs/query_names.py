"""The streaming queries: their names, here and at brokers, and the tables that each writes."""

TABLES, GATHER, MOVEMENT = "tables", "gather", "movement"
QUERIES = (TABLES, GATHER, MOVEMENT)
HANDED = {TABLES: "deliveries", GATHER: "aggregates", MOVEMENT: "movement"}
"""The names of the queries at brokers, and in the transactions of tables."""
TABLES_OF = {
    TABLES: ("events", "rejects", "contexts", "deliveries"),
    GATHER: ("aggregates",),
    MOVEMENT: ("encounters", "traffic"),
}
STATEFUL = {query: TABLES_OF[query] for query in (GATHER, MOVEMENT)}
"""The queries with state, which can be rebuilt from the log."""
