"""A library and slots on the CPU, and a device that is made up; the helpers beside the tests are found."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fake_device import FakeDevice, fake_library
from fake_peers import FakeFa3, FakeFlashInfer

from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.buffers import Slots, allocate_slots
from sparkctl.bench.peers import flashinfer as flashinfer_peer
from sparkctl.runtime import Library

CASE = DecodeCase(batch=2, kv_len=200, heads=Heads(8, 2), head_dim=64)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Small tensors: threads would wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def library(device: FakeDevice) -> Library:
    return fake_library(device)


@pytest.fixture
def slots() -> Slots:
    return allocate_slots(CASE, 2, device="cpu")


@pytest.fixture
def fa3(monkeypatch: pytest.MonkeyPatch) -> FakeFa3:
    fake = FakeFa3()
    monkeypatch.setitem(sys.modules, "fa3_fwd_interface", fake)
    return fake


@pytest.fixture
def flashinfer(monkeypatch: pytest.MonkeyPatch) -> FakeFlashInfer:
    fake = FakeFlashInfer()
    monkeypatch.setattr(flashinfer_peer, "WORKSPACE_BYTES", 1024)
    monkeypatch.setitem(sys.modules, "flashinfer", fake)
    monkeypatch.setitem(sys.modules, "flashinfer.decode", fake.decode)
    return fake
