"""What is deployed: small models that predict with numpy alone, know their bytes, and save as one file without pickle."""

from treespec.students.base import Student
from treespec.students.file import load_student

__all__ = ["Student", "load_student"]
