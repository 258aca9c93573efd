"""Citations as docstrings write them, "[1]_" and ".. [1]", become plain "[1]" in the site."""

import re


def on_page_content(html: str, **_: object) -> str:
    """Called by mkdocs with the body of each page."""
    return re.sub(r"\.\. (\[\d+\])|(\[\d+\])_(?=\W)", r"\1\2", html)
