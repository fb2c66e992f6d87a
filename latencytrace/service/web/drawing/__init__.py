"""Pictures as SVG, drawn on the server: colours are classes, so that themes can change them."""
