"""Built libraries at run time: where they lie, what they hold, how they are called."""

from sparkctl.runtime.library import Library, load_library
from sparkctl.runtime.locate import find_library_folder
from sparkctl.runtime.manifest import Backend, BuiltVariant, Manifest, RuntimeFlag, read_manifest, write_manifest

__all__ = [
    "Backend",
    "BuiltVariant",
    "Library",
    "Manifest",
    "RuntimeFlag",
    "find_library_folder",
    "load_library",
    "read_manifest",
    "write_manifest",
]
