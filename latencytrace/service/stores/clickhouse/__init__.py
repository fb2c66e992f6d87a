"""The store on a ClickHouse server, asked over HTTP."""
