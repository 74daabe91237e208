"""Profiles with all that they extend folded in, each option with the line it was written in."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkctl.registry.assemble_sets import assemble_sets
from sparkctl.registry.document import KeyPath
from sparkctl.registry.model import Flag, Location, Profile
from sparkctl.registry.problems import Problems
from sparkctl.registry.schema import ProfileSpec, Tool
from sparkctl.registry.suggest import did_you_mean

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PROFILE_NAME = re.compile(r"[A-Za-z0-9_]+")
TOOLS: tuple[Tool, ...] = ("nvcc", "ptxas", "host")


def assemble_profiles(
    specs: Mapping[str, ProfileSpec], flags: Mapping[str, Flag], problems: Problems
) -> dict[str, Profile]:
    """What is wrong goes to `problems`; the result is only good if nothing did."""
    folder = _Folder(specs, flags, problems)
    return {name: folder.fold(name, ()) for name in specs}


class _Folder:
    """Folds each profile once, whatever order they extend each other in."""

    def __init__(self, specs: Mapping[str, ProfileSpec], flags: Mapping[str, Flag], problems: Problems) -> None:
        self.specs = specs
        self.flags = flags
        self.problems = problems
        self.done: dict[str, Profile] = {}

    def fold(self, name: str, below: tuple[str, ...]) -> Profile:
        """`below` are the profiles that are being folded just now: meeting one of them again is a cycle."""
        if name not in self.done:
            base = self._base(name, (*below, name))
            self._check_names(name)
            self.done[name] = self._extend(base, name)
        return self.done[name]

    def _base(self, name: str, below: tuple[str, ...]) -> Profile:
        path: KeyPath = ("profiles", name, "extends")
        extends = self.specs[name].extends
        if extends is not None and extends not in self.specs:
            self.problems.add(path, f"unknown profile '{extends}'", did_you_mean(extends, self.specs))
        elif extends in below:
            self.problems.add(path, "a cycle: " + " → ".join([*below, extends]))
        elif extends is not None:
            return self.fold(extends, below)
        return Profile("", "", (), (), (), {}, {}, {}, self.problems.document.location(path))

    def _check_names(self, name: str) -> None:
        path: KeyPath = ("profiles", name)
        if not PROFILE_NAME.fullmatch(name):
            self.problems.add(path, "a profile's name is letters, digits and _")
        for macro, value in self.specs[name].define.items():
            if not IDENTIFIER.fullmatch(macro):
                self.problems.add((*path, "define", macro), "not a macro's name")
            if any(character in str(value) for character in "\n\r\0"):
                self.problems.add((*path, "define", macro), "a macro's value must be one line")

    def _extend(self, base: Profile, name: str) -> Profile:
        spec, path = self.specs[name], ("profiles", name)
        at = self.problems.document.location
        options = {tool: self._options(tool, base, name) for tool in TOOLS}
        locations = {key: where for key, where in base.locations.items() if key.startswith(("define:", "set:"))}
        locations |= {f"{tool}:{i}": where for tool in TOOLS for i, (_, where) in enumerate(options[tool])}
        locations |= {f"define:{macro}": at((*path, "define", macro)) for macro in spec.define}
        locations |= {f"set:{flag}": at((*path, "set", flag)) for flag in spec.set}
        return Profile(
            name=name,
            doc=spec.doc,
            nvcc=tuple(token for token, _ in options["nvcc"]),
            ptxas=tuple(token for token, _ in options["ptxas"]),
            host=tuple(token for token, _ in options["host"]),
            define=dict(base.define) | {macro: str(value) for macro, value in spec.define.items()},
            set=dict(base.set) | assemble_sets(spec.set, (*path, "set"), self.flags, self.problems),
            locations=locations,
            location=at(path),
        )

    def _is_whole(self, name: str | None) -> bool:
        """Whether the profile and all that it extends are as written."""
        seen: set[str] = set()
        while name is not None and name in self.specs and name not in seen:
            if not self.problems.is_whole(("profiles", name)):
                return False
            seen.add(name)
            name = self.specs[name].extends
        return True

    def _options(self, tool: Tool, base: Profile, name: str) -> list[tuple[str, Location]]:
        """Options and their lines: the base's without the removed ones, then the profile's own."""
        spec, path = self.specs[name], ("profiles", name)
        inherited: tuple[str, ...] = getattr(base, tool)
        removed = spec.remove.get(tool, [])
        for index, token in enumerate(removed):
            if token not in inherited and self._is_whole(name):
                where: KeyPath = (*path, "remove", tool, index)
                known = did_you_mean(token, inherited)
                self.problems.add(where, f"'{token}' is not in profile '{spec.extends}'", known)
        kept = [(token, base.locations[f"{tool}:{i}"]) for i, token in enumerate(inherited) if token not in removed]
        own: list[str] = getattr(spec, tool)
        return kept + [(token, self.problems.document.location((*path, tool, i))) for i, token in enumerate(own)]
