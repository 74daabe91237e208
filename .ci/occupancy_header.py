"""Unpacks NVIDIA's occupancy header, the oracle of tests/unit/resources/test_occupancy_oracle.py, from its wheel.

python .ci/occupancy_header.py FOLDER

The build's own toolkit is older, and its header gives other barrier limits to compute capability 10.3: this version is
kept apart from it, and nothing is compiled against it but the oracle.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEEL = "nvidia-cuda-runtime==13.5.37"
HEADERS = ("cuda_occupancy.h", "cuda_runtime_api.h")  # the second says the version


def main(folder: Path) -> int:
    """Download, unpack; nothing is done where the headers are."""
    if all((folder / name).is_file() for name in HEADERS):
        return 0
    with tempfile.TemporaryDirectory() as temp:
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*words, "--only-binary=:all:", "-d", temp, WHEEL], check=True)
        (wheel,) = Path(temp).glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            for name in HEADERS:
                (folder / name).write_bytes(archive.read(f"nvidia/cu13/include/{name}"))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
