"""What attention must do at least, counted by hand; shares of a roof that is measured; devices that are not there."""

import pytest
import torch

from interp.bench.roofline import Heads, Work, run, work
from interp.cli import main
from interp.commands.bench import _roofline


def test_operations_and_bytes_of_a_small_layer():
    heads = Heads(heads=4, kv_heads=2, d=8)
    pairs = 4 * (1 + 2 + 3)
    plain = work(heads, 3, 2, measured=False)
    assert plain.flops == pairs * (2 * 8 + 2 * 8), "scores and output, two operations a multiplication"
    assert plain.bytes == 2 * 3 * 8 * (4 + 4 + 2 + 2), "queries, output, keys, values"
    kernel = work(heads, 3, 2, measured=True, split=True)
    assert kernel.flops == 1.5 * plain.flops
    assert kernel.bytes == plain.bytes + 2 * 3 * 8 * 2 + 4 * 4 * 4 * 3, "the keys' second part, four sums a row"


def test_the_roof_is_the_slower_of_arithmetic_and_memory():
    assert Work(flops=100, bytes=10).seconds(50, 100) == 2
    assert Work(flops=100, bytes=10).seconds(1000, 100) == 0.1


def test_records_hold_shares_of_the_roof():
    device, *records = run(Heads(4, 2, 16), torch.device("cpu"), torch.float32, lengths=(64,), repeats=1)
    assert device["flops_per_second"] > 1e6
    assert device["bytes_per_second"] > 1e6
    assert [record["contender"] for record in records] == ["sdpa", "chunked"]
    for record in records:
        least = Work(record["flops"], record["bytes"])
        roof = least.seconds(device["flops_per_second"], device["bytes_per_second"])
        assert record["of_roof"] == pytest.approx(roof / record["seconds"])
    assert records[0]["over_sdpa"] == 1
    assert "4 heads on 2 of 16 numbers, float32 on cpu; matrix products reach" in _roofline(device)
    assert "% of the roof, 1.00x SDPA" in _roofline(records[0])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused_in_one_line(capsys):
    assert main(["bench", "entropy", "--device", "cuda"]) == 2
    assert "--device cuda: not available here" in capsys.readouterr().err
    assert main(["bench", "train", "--device", "cuda"]) == 2
    assert "--device and --model are of cotlens bench entropy, not of train" in capsys.readouterr().err
