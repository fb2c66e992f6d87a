"""Shows a notebook's cells: their requests as a breakdown and a waterfall, without a server."""
