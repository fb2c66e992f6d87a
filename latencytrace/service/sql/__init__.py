"""ClickHouse's SQL: tables, ingestion and questions, the same embedded and on a cluster."""
