"""Which removed synchronisation which check notices: the emulator's judgement, judged.

    python benchmarks/mutation_check.py [KERNEL...] [--json OUT.json] [--markdown OUT.md]

Takes one barrier, __syncwarp, cp.async wait or griddepcontrol.wait at a time out of a kernel's own sources, in a copy
of the project, builds what is left and runs a few cases: under every schedule with other arrivals of copies, and under
the race and memory checks. A removal that none of them notices is a survivor: the statement is redundant, or the checks
have a gap. Exit code 1 when a survivor has no explanation here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sparkctl.arch import parse_arch
from sparkctl.build import RUNNER_NAME, Sanitizer, ensure_built, with_combines
from sparkctl.errors import SparkctlError
from sparkctl.registry import load_registry, select_variants
from sparkctl.registry.model import Registry
from sparkctl.testing.case_file import CASE_SUFFIX, encode_case
from sparkctl.testing.cases import cases_for
from sparkctl.testing.export import export_case, recorder_for, refusal
from sparkctl.workflows.stamp import read_stamp

ROOT = Path(__file__).resolve().parent.parent
ARCH = parse_arch("sm_90")
STATEMENT = re.compile(
    r"__syncthreads\(\)|__syncwarp\([^)]*\)|(?:ptx::)?(?:cp_async_wait_group<\w+>|cp_async_wait_all|griddepcontrol_wait)\(\)"
)
# Each schedule once with another arrival of copies; late copies find missing waits, early ones refills too early.
MODES = (("ascending", "late"), ("descending", "early"), ("random", "random"), ("descending", "late"))
TIME_LIMIT_S = 120


@dataclass(frozen=True)
class Subject:
    """A kernel: where its synchronisation stands, and what runs to judge it."""

    sources: tuple[str, ...]
    variants: tuple[str, ...]
    words: tuple[str, ...]  # a case runs if its id holds one of them


DECODE_CASES = ("-b2-", "every_option", "mask_all_rows", "b3-kv342", "empty", "multiple")
SUBJECTS: Mapping[str, Subject] = {
    "attn_decode_split_kv_mma": Subject(
        ("attention/split_kv_mma.cuh",),
        tuple(f"attn_decode_split_kv_mma.bf16.d64{end}" for end in ("", ".reload.r16")),
        DECODE_CASES,
    ),
    "attn_paged_decode_split_kv_mma": Subject(
        ("attention/split_kv_mma.cuh",),
        ("attn_paged_decode_split_kv_mma.bf16.d64",),
        DECODE_CASES,
    ),
    "fa_split_gqa": Subject(
        ("attention/split_gqa.cuh",),
        tuple(f"fa_split_gqa.bf16.d64{end}" for end in ("", ".s1")),
        DECODE_CASES,
    ),
    "attn_prefill_split_q_mma": Subject(
        ("prefill/split_q_mma.cuh",),
        ("attn_prefill_split_q_mma.bf16.d64",),
        ("b2", "b3", "every_option", "ragged"),
    ),
    "attn_decode_split_kv": Subject(("attention/split_kv.cuh",), ("attn_decode_split_kv.bf16.d64",), DECODE_CASES),
    "attn_prefill_split_q": Subject(
        ("prefill/split_q.cuh",), ("attn_prefill_split_q.bf16.d64",), ("b2", "b3", "every_option", "ragged")
    ),
    "attn_combine": Subject(
        ("combine/combine.cuh", "combine/merge.cuh"), ("attn_decode_split_kv_mma.bf16.d64",), ("sauto", "s3", "s9")
    ),
}
MOST_CASES = 24  # of one variant
# Why nothing notices: (kernel, how the statement's comment begins) -> reason.
EXPLAINED: Mapping[tuple[str, str], str] = {
    ("attn_paged_decode_split_kv_mma", "Q is written"): "compiled for q_frag=reload alone, which pages do not have",
    (
        "attn_paged_decode_split_kv_mma",
        "from here on",
    ): "a call on pages always has kv_lens, and has waited for the kernel ahead before it read them",
}


@dataclass(frozen=True)
class Mutant:
    """One statement taken out."""

    kernel: str
    source: str  # under csrc
    line: int
    statement: str
    comment: str


@dataclass
class Verdict:
    """What noticed it, with the first words of each."""

    mutant: Mutant
    found_by: dict[str, str] = field(default_factory=dict)
    explanation: str = ""


def main() -> int:
    """Mutate, build, run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {', '.join(SUBJECTS)}")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    options = parser.parse_args()
    if unknown := [name for name in options.kernels if name not in SUBJECTS]:
        parser.error(f"unknown kernel {unknown[0]}; known are {', '.join(SUBJECTS)}")
    verdicts: list[Verdict] = []
    with tempfile.TemporaryDirectory(prefix="sparkctl-mutants-") as name:
        bench = Bench.set_up(Path(name))
        for kernel in options.kernels or SUBJECTS:
            verdicts += judge_kernel(bench, kernel)
    text = render(verdicts)
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n", encoding="utf-8")
    if options.json:
        stamp = read_stamp(ROOT)
        record = {
            "schema_version": 1,
            "command": f"python benchmarks/mutation_check.py {' '.join(options.kernels)}".strip(),
            "stamp": asdict(stamp),
            "mutants": [asdict(verdict) for verdict in verdicts],
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if any(not v.found_by and not v.explanation for v in verdicts) else 0


@dataclass(frozen=True)
class Bench:
    """A copy of the project to break, and the folder for case files."""

    project: Path
    cases: Path
    registry: Registry

    @classmethod
    def set_up(cls, folder: Path) -> Bench:
        project = folder / "project"
        project.mkdir()
        shutil.copy2(ROOT / "flags.yaml", project)
        shutil.copytree(ROOT / "csrc", project / "csrc")
        return cls(project, folder / "cases", load_registry(project / "flags.yaml"))

    def build(self, variants: Sequence[str], sanitizer: Sanitizer | None) -> Path:
        """The runner's path."""
        chosen = with_combines(self.registry, select_variants(self.registry, variants, arch=ARCH))
        folder = ensure_built(self.registry, chosen, arch=ARCH, backend="emulator", runner=True, sanitizer=sanitizer)
        return folder / RUNNER_NAME

    def case_files(self, subject: Subject) -> list[Path]:
        """Written once: the inputs do not depend on what is removed."""
        recorder = recorder_for(self.registry)
        files = []
        for variant in select_variants(self.registry, subject.variants, arch=ARCH):
            folder = self.cases / variant.name
            folder.mkdir(parents=True, exist_ok=True)
            cases = [case for case in cases_for(variant, "quick") if refusal(case) is None]
            for case in [case for case in cases if any(word in case.id for word in subject.words)][:MOST_CASES]:
                path = folder / f"{case.id}{CASE_SUFFIX}"
                if not path.exists():
                    path.write_bytes(encode_case(export_case(recorder, variant, case, 0)))
                files.append(path)
        return files


def judge_kernel(bench: Bench, kernel: str) -> Iterator[Verdict]:
    subject = SUBJECTS[kernel]
    files = bench.case_files(subject)
    print(f"{kernel}: {len(files)} cases of {len(subject.variants)} variants", file=sys.stderr, flush=True)
    if healthy := run_checks(bench, subject, files):
        raise SystemExit(f"{kernel} fails as it is: {healthy}")
    for mutant in mutants(kernel, subject):
        path = bench.project / "csrc" / mutant.source
        whole = path.read_text(encoding="utf-8")
        lines = whole.splitlines(keepends=True)
        lines[mutant.line - 1] = lines[mutant.line - 1].replace(mutant.statement, "((void)0)", 1)
        path.write_text("".join(lines), encoding="utf-8")
        try:
            verdict = Verdict(mutant, run_checks(bench, subject, files))
        finally:
            path.write_text(whole, encoding="utf-8")
        if not verdict.found_by:
            whys = (
                why for (name, start), why in EXPLAINED.items() if name == kernel and mutant.comment.startswith(start)
            )
            verdict.explanation = next(whys, "")
        found = ", ".join(verdict.found_by) or f"SURVIVES {verdict.explanation}"
        print(f"  {mutant.source}:{mutant.line} {mutant.statement}: {found}", file=sys.stderr, flush=True)
        yield verdict


def mutants(kernel: str, subject: Subject) -> Iterator[Mutant]:
    for source in subject.sources:
        text = (ROOT / "csrc" / source).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            code, _, comment = line.partition("//")
            for statement in STATEMENT.findall(code):
                yield Mutant(kernel, source, number, statement, comment.strip())


def run_checks(bench: Bench, subject: Subject, files: Sequence[Path]) -> dict[str, str]:
    """By check, the first failure it told of."""
    found: dict[str, str] = {}
    try:
        plain = bench.build(subject.variants, None)
        for schedule, mode in MODES:
            words = ["--schedule", schedule, "--async-mode", mode, "--seed", "1"]
            if failure := first_failure(plain, words, files):
                found[f"{schedule}/{mode}"] = failure
        for sanitizer in ("race", "memory"):
            runner = bench.build(subject.variants, sanitizer)
            if failure := first_failure(runner, [], files):
                found[sanitizer] = failure
    except SparkctlError as error:
        found["build"] = str(error)[:200]
    return found


def first_failure(runner: Path, words: Sequence[str], files: Sequence[Path]) -> str:
    try:
        done = subprocess.run(
            [runner, *words, *files],
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
            env={**os.environ},
        )
    except subprocess.TimeoutExpired:
        return f"no end within {TIME_LIMIT_S} s"
    if done.returncode == 0:
        return ""
    failures = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    return failures[0].partition(": ")[2] if failures else f"exit code {done.returncode}: {done.stderr[-200:]}"


def render(verdicts: Sequence[Verdict]) -> str:
    """A markdown table a kernel."""
    lines: list[str] = []
    for kernel in dict.fromkeys(verdict.mutant.kernel for verdict in verdicts):
        lines += [f"**{kernel}**", "", "| removed | its reason | schedules and copies | race | memory |"]
        lines.append("| --- | --- | --- | --- | --- |")
        for verdict in (v for v in verdicts if v.mutant.kernel == kernel):
            m = verdict.mutant
            modes = [f"{s}/{a}" for s, a in MODES if f"{s}/{a}" in verdict.found_by]
            shown = f"{len(modes)} of {len(MODES)}" if modes else "·"
            marks = ["**found**" if name in verdict.found_by else "·" for name in ("race", "memory")]
            reason = verdict.explanation and f"; not found: {verdict.explanation}"
            lines.append(
                f"| `{m.source}:{m.line}` `{m.statement}` | {m.comment}{reason} | {shown} | {' | '.join(marks)} |"
            )
        lines.append("")
    survivors = sum(not v.found_by for v in verdicts)
    lines.append(f"{len(verdicts)} removals, {len(verdicts) - survivors} noticed, {survivors} not.")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
