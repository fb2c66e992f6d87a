"""A store in one SQLite file: the example of `docs/pages/write-a-store.md`."""
