"""One target of the compiler: a compute capability, its suffix, and whether PTX travels along."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Arch:
    """`sm_90a` is Arch(9, 0, "a"). Suffix "a": only that chip; "f": its family; "": that chip and later minors.

    `ptx` also embeds PTX, so that later chips can compile the code when it loads.
    """

    major: int
    minor: int
    suffix: str = ""
    ptx: bool = False

    @property
    def name(self) -> str:
        """The target as ptxas prints it: `sm_90a`. PTX is not part of it; `str(arch)` says `sm_90a+PTX`."""
        return f"sm_{self._number}"

    @property
    def capability(self) -> str:
        """The device property: `9.0`."""
        return f"{self.major}.{self.minor}"

    @property
    def gencode(self) -> tuple[str, ...]:
        """nvcc's options for this target, one list element per option."""
        virtual = f"compute_{self._number}"
        codes = (self.name, virtual) if self.ptx else (self.name,)
        return tuple(f"-gencode=arch={virtual},code={code}" for code in codes)

    def supports(self, min_arch: Arch) -> bool:
        """Whether code that needs `min_arch` compiles for this arch.

        A plain `min_arch` is a floor. An `a` names one chip; an `f` names a family: the same major, this minor or
        later, compiled with its family's or its chip's own features.
        """
        mine, needed = (self.major, self.minor), (min_arch.major, min_arch.minor)
        if min_arch.suffix == "a":
            return mine == needed and self.suffix == "a"
        if min_arch.suffix == "f":
            return self.major == min_arch.major and mine >= needed and self.suffix in ("a", "f")
        return mine >= needed

    def __str__(self) -> str:
        return f"{self.name}+PTX" if self.ptx else self.name

    @property
    def _number(self) -> str:
        return f"{self.major}{self.minor}{self.suffix}"
