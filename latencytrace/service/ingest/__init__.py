"""Taking spans in: receivers, intake, the journal, and the committer that empties it."""
