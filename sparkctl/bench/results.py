"""What a run of bench found, as frozen data; the file that --save writes holds exactly this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkctl.bench.axes import DecodeCase, equal_case
from sparkctl.bench.gpus import GpuSpec
from sparkctl.bench.statistics import Interval, StopReason, StopRule, median, median_interval, noise
from sparkctl.bench.traffic import Traffic, bandwidth_tbps

if TYPE_CHECKING:
    from sparkctl.bench.ab import Ab, Comparison

CEILING_TOLERANCE = 1.03  # above this share of the measured ceiling a result is a fault of the measurement


@dataclass(frozen=True, slots=True)
class Sample:
    """One replay. `throttle` names why the clocks were held down, empty when they were not."""

    time_us: float  # of one call
    sm_clock_mhz: int | None = None
    throttle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """Every sample of one arm; the statistics leave throttled samples out unless nothing else is left."""

    samples: tuple[Sample, ...]
    calls: int  # in one sample
    stop: StopReason

    @property
    def throttled(self) -> int:
        """Samples taken while the clocks were held down."""
        return sum(bool(sample.throttle) for sample in self.samples)

    @property
    def all_throttled(self) -> bool:
        """Then the numbers are those of the throttled samples, and the row says so."""
        return self.throttled == len(self.samples)

    @property
    def times_us(self) -> tuple[float, ...]:
        """The samples that count."""
        kept = tuple(sample.time_us for sample in self.samples if not sample.throttle)
        return kept or tuple(sample.time_us for sample in self.samples)

    @property
    def median_us(self) -> float:
        """The time of one call."""
        return median(self.times_us)

    @property
    def interval_us(self) -> Interval:
        """95 % interval of the median."""
        return median_interval(self.times_us)

    @property
    def noise(self) -> float:
        """Interquartile range over the median, as a share."""
        return noise(self.times_us)


@dataclass(frozen=True, slots=True)
class PeerResult:
    """Another library on the same inputs; without a series, `reason` says why it did not run."""

    name: str
    series: Series | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The fastest of the read kernels over the very buffers of the case."""

    kernel: str  # its variant and blocks per SM
    bytes: int
    series: Series

    @property
    def tbps(self) -> float:
        """Read bandwidth, TB/s."""
        return bandwidth_tbps(self.bytes, self.series.median_us)


@dataclass(frozen=True, slots=True)
class GemmCeiling:
    """A product of two square matrices, measured in the same run."""

    size: int
    dtype: str
    series: Series

    @property
    def tflops(self) -> float:
        """Tensor-core rate, TFLOP/s."""
        return 2 * self.size**3 / self.series.median_us * 1e-6


@dataclass(frozen=True, slots=True)
class Row:
    """One variant on one case."""

    case: DecodeCase
    kernel: str
    variant: str
    num_splits: int
    traffic: Traffic
    slots: int  # distinct sets of buffers that the calls rotate among
    series: Series
    eager: Series
    ceiling: Ceiling
    peers: tuple[PeerResult, ...]
    error: str  # the outcome of the comparison with the fp64 reference
    arm: str = ""  # `stages=2`, where arms are compared

    @property
    def tbps(self) -> float:
        """Bytes of the case over its time, TB/s."""
        return bandwidth_tbps(self.traffic.bytes, self.series.median_us)

    @property
    def ceiling_share(self) -> float:
        """Of the measured read bandwidth."""
        return self.tbps / self.ceiling.tbps

    def peak_share(self, gpu: GpuSpec | None) -> float | None:
        """Of the data sheet's bandwidth; None for an unknown GPU and for a hot L2, which DRAM does not bound."""
        return None if gpu is None or self.case.l2 == "hot" else self.tbps / gpu.bandwidth_tbps

    @property
    def tflops(self) -> float:
        """Operations of the case over its time, TFLOP/s."""
        return self.traffic.flops / self.series.median_us * 1e-6

    def is_compute_bound(self, gemm: GemmCeiling | None) -> bool:
        """Whether the measured GEMM rate allows less than the measured read rate does."""
        if gemm is None:
            return False
        return self.traffic.flops / gemm.tflops > self.traffic.bytes / self.ceiling.tbps

    def gemm_share(self, gemm: GemmCeiling | None) -> float | None:
        """Of the measured GEMM rate; None where memory is the limit."""
        return self.tflops / gemm.tflops if gemm is not None and self.is_compute_bound(gemm) else None

    def speedup(self, peer: PeerResult) -> float | None:
        """The peer's time over ours: above 1 ours is faster."""
        return None if peer.series is None else peer.series.median_us / self.series.median_us

    @property
    def beats_ceiling(self) -> bool:
        """Whether even the slow end of the interval is faster than reading alone, by more than the tolerance."""
        slow_end = bandwidth_tbps(self.traffic.bytes, self.series.interval_us.high)
        return slow_end > CEILING_TOLERANCE * self.ceiling.tbps


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that there is not: a case that does not fit, a call that failed, an output that is wrong."""

    case: DecodeCase
    reason: str  # one line
    variant: str = ""  # empty where it is the whole case

    def __str__(self) -> str:
        return f"{', '.join(filter(None, (self.variant, self.case.label)))}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The revision that was measured; `commit` None where there is no history and no stamp file."""

    commit: str | None
    dirty: bool | None


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a run was taken, and what was run."""

    gpu: str
    arch: str
    sm_count: int
    l2_bytes: int
    driver: str | None
    cuda: str | None
    torch: str
    cudnn: str | None
    python: str
    clocks_missing: str | None  # why no clocks were read
    sparkctl: str
    stamp: Stamp
    compiler: str
    profile: str
    flags: tuple[tuple[str, str], ...]
    library_digest: str
    gemm: GemmCeiling | None = None
    gemm_missing: str | None = None  # why it was not measured


@dataclass(frozen=True, slots=True)
class Sampling:
    """When a row had been sampled enough."""

    rule: StopRule
    budget_s: float  # of a row


@dataclass(frozen=True, slots=True)
class Run:
    """A whole run: what --json prints and --save writes."""

    environment: Environment
    command: str
    started: str  # ISO 8601, UTC
    rows: tuple[Row, ...]
    ab: Ab | None = None
    comparisons: tuple[Comparison, ...] = ()
    failures: tuple[Failure, ...] = ()
    planned: int = 0  # rows that a whole run has
    interrupted: bool = False  # by Ctrl-C
    lost: str | None = None  # why the device does not answer any more
    sampling: Sampling | None = None

    def over_equal(self, row: Row) -> float | None:
        """The time of a ragged row over that of as many keys in sequences of one length: 1 where lengths cost nothing.

        None for other rows, and where the other was not measured.
        """
        equal = equal_case(row.case)
        found = [one for one in self.rows if one.case == equal and one.arm == row.arm] if equal is not None else []
        own = [one for one in found if one.variant == row.variant]
        chosen = len(found) == 1 and sum(one.case == row.case and one.arm == row.arm for one in self.rows) == 1
        beside = own or (found if chosen else [])
        return row.series.median_us / beside[0].series.median_us if beside else None

    @property
    def clocks_mhz(self) -> tuple[int, int] | None:
        """Slowest and fastest SM clock seen; None where NVML did not say."""
        seen = [
            sample.sm_clock_mhz for row in self.rows for sample in row.series.samples if sample.sm_clock_mhz is not None
        ]
        return (min(seen), max(seen)) if seen else None
