"""Values and texts that nobody can read, mended, and the account of them."""
