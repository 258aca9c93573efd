"""Classes: taught with a few marked pictures, applied to many; the same number for the same texture in all of them."""

from .classification import Classification
from .classifier import Classifier
from .names import ClassName, read_classes, write_classes

__all__ = ["ClassName", "Classification", "Classifier", "read_classes", "write_classes"]
