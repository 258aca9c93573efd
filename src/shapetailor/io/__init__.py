"""Files: pictures and label maps in and out, written whole or not at all."""

from .files import atomic, image_files
from .images import read_image, read_labels, read_picture, write_image, write_labels
from .picture import Picture

__all__ = [
    "Picture",
    "atomic",
    "image_files",
    "read_image",
    "read_labels",
    "read_picture",
    "write_image",
    "write_labels",
]
