"""Pages that explain a cohort, compare it with another, and forecast it."""
