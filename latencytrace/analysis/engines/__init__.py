"""One inference engine a file; `analysis.trace.known_engines` lists them."""
