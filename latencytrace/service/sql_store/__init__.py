"""A store in tables of SQL, whichever engine of ClickHouse keeps them."""
