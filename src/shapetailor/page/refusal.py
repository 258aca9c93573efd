"""What the page cannot do, in words."""


class Refusal(Exception):  # noqa: N818, it is an answer and no mistake of ours
    """An answer with an HTTP status and a sentence that says what to do."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text
