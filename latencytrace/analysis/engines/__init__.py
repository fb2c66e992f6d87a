"""One inference engine a file; `analysis.known_engines` lists them."""
