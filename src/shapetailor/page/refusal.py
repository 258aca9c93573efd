"""What the page cannot do, in words."""

import errno
import signal
from pathlib import Path

FULL = "The disk is full. Make room, then do it again; what was stored before is safe."
NO_MEMORY = "There is not enough memory for this. Close other programs, or use a smaller picture."


class Refusal(Exception):  # noqa: N818, it is an answer and no mistake of ours
    """An answer with an HTTP status and a sentence that says what to do."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


def words(error: Exception) -> str:
    """What an error says, for a person.

    >>> words(OSError(errno.ENOSPC, "No space left on device", "a.json"))
    'The disk is full. Make room, then do it again; what was stored before is safe.'
    >>> words(PermissionError(errno.EACCES, "Permission denied", "/pictures/a.png"))
    'a.png: Permission denied.'
    """
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FULL
    if isinstance(error, MemoryError):
        return NO_MEMORY
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, (str, Path)):
        return f"{Path(error.filename).name}: {error.strerror}."
    return str(error) or type(error).__name__


def words_of_command(status: int, line: str) -> str:
    """What the last line of a command that has failed says, for a person.

    >>> words_of_command(2, "[Errno 28] No space left on device: 'model.safetensors'")
    'The disk is full. Make room, then do it again; what was stored before is safe.'
    >>> words_of_command(-9, "")
    'There is not enough memory for this. Close other programs, or use a smaller picture.'
    """
    if any(f"[Errno {number}]" in line for number in (errno.ENOSPC, errno.EDQUOT)):
        return FULL
    if status == -signal.SIGKILL:  # by the system, which does so where memory ends
        return NO_MEMORY
    return line or f"Status {status}."
