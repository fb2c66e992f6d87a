"""The web: the application, its questions and its views (JSON); pages (HTML) go beside them."""
