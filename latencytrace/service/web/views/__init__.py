"""One file per view, each a FastAPI router."""
