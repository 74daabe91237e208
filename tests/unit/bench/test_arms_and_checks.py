"""What a call hands to the library, and the checks on what it leaves behind; all on the CPU."""

import pytest

from sparkctl.bench.arms import BLOCKS_PER_SM, check_read, decode_arm, plan_case, read_arms
from sparkctl.bench.axes import DecodeCase, Heads
from sparkctl.bench.buffers import Slots
from sparkctl.bench.peers.sdpa import refusal, sdpa_arms
from sparkctl.errors import UsageError, WorkFailed
from sparkctl.runtime import Library
from sparkctl.workflows.bench_verify import verify_outputs

CASE = DecodeCase(batch=2, kv_len=200, heads=Heads(8, 2), head_dim=64)  # that of the fixtures in conftest.py


def test_a_decode_is_called_with_its_slots_tensors_and_the_shared_workspace(library: Library, slots: Slots) -> None:
    call = plan_case(library, CASE, variant=None, device_sm_count=132)
    arm = decode_arm(CASE, slots, call)
    assert arm.arm.call(1) is slots.out[1]
    args = library.module.calls[-1]
    assert args[:2] == (library.index[call.plan.variant], library.index["attn_combine.bf16.d64"])
    assert (args[2], args[3], args[4], args[6]) == (slots.q[1], slots.k[1], slots.v[1], slots.out[1])
    assert args[8].shape == (2, 1, 8, call.plan.num_splits, 64)
    assert args[11:] == (64**-0.5, False, -1, 0.0, None, None)  # causal, window, softcap, mask, sinks: off


def test_the_eager_form_never_writes_to_the_outputs_that_are_checked(library: Library, slots: Slots) -> None:
    arm = decode_arm(CASE, slots, plan_case(library, CASE, variant=None, device_sm_count=132))
    arm.eager.call(0)
    arm.eager.call(1)
    assert all(out.isnan().all() for out in slots.out)


def test_poison_reaches_outputs_and_partials(library: Library, slots: Slots) -> None:
    arm = decode_arm(CASE, slots, plan_case(library, CASE, variant=None, device_sm_count=132))
    arm.arm.call(0)
    arm.poison()
    assert all(tensor.isnan().all() for tensor in (*slots.out, arm.workspace.part_acc, arm.workspace.part_sum))


def test_a_shape_that_no_variant_accepts_is_refused(library: Library) -> None:
    with pytest.raises(UsageError, match="no decode kernel accepts it"):
        plan_case(library, DecodeCase(1, 64, Heads(128, 1), 64), variant=None, device_sm_count=132)
    with pytest.raises(UsageError, match="does not accept"):
        plan_case(
            library,
            DecodeCase(1, 64, Heads(128, 1), 64),
            variant="attn_decode_split_kv.bf16.d64",
            device_sm_count=132,
        )


def test_every_read_kernel_is_tried_with_every_grid_and_no_block_is_idle(library: Library, slots: Slots) -> None:
    arms = read_arms(library, slots, 132)
    assert len(arms) == 3 * len(BLOCKS_PER_SM)
    assert len({arm.name for arm in arms}) == len(arms)
    blocks = {arm.call(0).shape[0] for arm in arms}
    assert max(blocks) * 256 * 16 < slots.layout.size + 256 * 16


def test_a_read_that_skipped_bytes_is_no_ceiling(library: Library, slots: Slots) -> None:
    arm = read_arms(library, slots, 132)[0]
    check_read(arm.name, arm.call(0), slots.raw[0])
    with pytest.raises(WorkFailed, match="did not read the whole buffer"):
        check_read(arm.name, arm.call(0), slots.raw[1])


def test_a_right_output_passes_the_check_and_a_wrong_one_names_the_place(library: Library, slots: Slots) -> None:
    arm = decode_arm(CASE, slots, plan_case(library, CASE, variant=None, device_sm_count=132))
    right = arm.arm.call(0).clone()
    wrong = right.clone()
    wrong[1, 0, 5, 7] += 0.5
    verdicts = verify_outputs(CASE, slots.q[0], slots.k[0], slots.v[0], [right, wrong])
    assert verdicts[0].worst <= 1.0
    assert verdicts[1].worst > 4.0
    assert "sequence 1" in verdicts[1].text
    assert "head 5, dim 7" in verdicts[1].text


def test_an_output_that_was_never_written_is_wrong(slots: Slots) -> None:
    (verdict,) = verify_outputs(CASE, slots.q[0], slots.k[0], slots.v[0], [slots.out[0]])
    assert not verdict.worst <= 4.0


def test_sdpa_takes_the_slots_own_memory_and_agrees_with_the_reference(slots: Slots) -> None:
    flash = next(arm for arm in sdpa_arms(CASE, slots) if arm.name == "SDPA flash")
    assert flash.call is not None
    (verdict,) = verify_outputs(CASE, slots.q[1], slots.k[1], slots.v[1], [flash.call(1)])
    assert verdict.worst <= 4.0


def test_sdpa_without_its_device_gives_a_reason(slots: Slots) -> None:
    cudnn = next(arm for arm in sdpa_arms(CASE, slots) if arm.name == "SDPA cuDNN")
    assert cudnn.call is None
    assert cudnn.reason
    assert "\n" not in cudnn.reason


def test_sdpa_is_not_compared_where_its_mask_means_something_else(slots: Slots) -> None:
    case = DecodeCase(2, 200, Heads(8, 2), 64, qo_len=4, causal=True)
    arms = sdpa_arms(case, slots)
    assert all(arm.call is None and "top left" in str(arm.reason) for arm in arms)


def test_torchs_own_warning_about_a_backend_is_the_reason() -> None:
    warned = [
        "Flash attention kernel not used because: (Triggered internally at sdp_utils.cpp:1.)",
        "Flash attention has been runtime disabled. (Triggered internally at sdp_utils.cpp:2.)",
        "cuDNN attention kernel not used because: (Triggered internally at sdp_utils.cpp:3.)",
        "cuDNN needs head_dim at most 128. (Triggered internally at sdp_utils.cpp:4.)\nmore",
    ]
    assert (
        refusal("SDPA cuDNN", "No available kernel. Aborting execution.", warned) == "cuDNN needs head_dim at most 128."
    )
    assert refusal("SDPA cuDNN", "No available kernel.\nlong text", []) == "No available kernel."
    assert refusal("SDPA cuDNN", "", []) == "it failed without a message"
