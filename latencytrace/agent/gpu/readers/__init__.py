"""One package a vendor; nothing imports them, entry points name them."""
