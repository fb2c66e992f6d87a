"""Pictures of cohorts beside each other, and of one as it might be."""
