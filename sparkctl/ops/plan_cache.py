"""Plans that were made before: choosing a variant and its splits costs more than launching it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from sparkctl.ops.flags import given_texts
from sparkctl.runtime import Library

Planned = TypeVar("Planned")

MOST = 1024  # plans; a cache that grows by a key a call has a shape a call
_made: dict[tuple[int, Hashable], tuple[Library, Any]] = {}


def remembered(library: Library, request: Hashable, environ: Mapping[str, str], make: Callable[[], Planned]) -> Planned:
    """What `make` gave for this request on this library, while the environment says the same of its flags.

    The names in the environment are looked at again when their number changes, which costs no walk over them. A
    library that was built anew is another object.
    """
    key = (id(library), (request, len(environ), given_texts(library.manifest, environ)))
    found = _made.get(key)
    if found is not None and found[0] is library:
        return found[1]  # type: ignore[no-any-return]
    made = make()
    if isinstance(library, Library):  # what stands for one lives for a call, and would be kept
        if len(_made) >= MOST:
            _made.clear()
        _made[key] = (library, made)
    return made
