"""Does the kernel compile for a GPU that is not here, and what does it need? For the tests and the documentation.

    python -m probes.attention.kernel.compiled 80 90        a table in Markdown, for compute capability 8.0 and 9.0

Triton brings the whole compiler, so no GPU is needed; nothing is run. Not with TRITON_INTERPRET=1, under which
Triton has no compiler.
"""

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from probes.attention.kernel.launch import Launch
from probes.attention.kernel.tiles import Sizes


@dataclass(frozen=True)
class Resources:
    """Of one program, as the assembler reports them."""

    registers: int  # of a thread
    spilled_bytes: int  # of a thread: registers that did not fit
    shared_bytes: int
    tensor_core: bool  # whether products are those of tensor cores
    asynchronous: bool  # whether tiles are fetched while others are computed


def compiled(
    capability: int,
    d: int,
    *,
    dtype: torch.dtype = torch.bfloat16,
    masked: bool = False,
    softcap: float | None = None,
    groups: bool = False,
    sizes: Sizes | None = None,
) -> Resources:
    """The kernel for heads of `d` numbers, or that of the groups, compiled for a compute capability such as 80."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from probes.attention.kernel import device

    query, key = torch.zeros(2, 4, 48, d, dtype=dtype), torch.zeros(2, 2, 48, d, dtype=dtype)
    mask = torch.ones(2, 1, 48, 48, dtype=torch.bool) if masked else None
    launch = Launch(query, key, 1.0, None if groups else key, mask, softcap, sizes)
    function: Any = device.group_rows if groups else device.attention_rows
    arguments = launch.of_groups(torch.ones(48, 5, dtype=torch.bool)) if groups else launch.of_attention()
    options = {name: arguments.pop(name) for name in ("num_warps", "num_stages")}
    constants = {name: value for name, value in arguments.items() if name.isupper()}
    signature = {name: "constexpr" if name in constants else _type(arguments[name]) for name in function.arg_names}
    plain = {parameter.name for parameter in function.params if parameter.do_not_specialize}
    aligned = [["tt.divisibility", 16]]  # what Triton finds of pointers and strides when it is called
    attributes = {
        (i,): aligned for i, name in enumerate(function.arg_names)
        if signature[name].startswith("*") or (signature[name] == "i32" and name not in plain)
    }  # fmt: skip
    source = ASTSource(function, signature, constants, attributes)
    found = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return _resources(found)


def _type(argument: Any) -> str:
    if isinstance(argument, torch.Tensor):
        names = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32", torch.int32: "i32"}
        return f"*{names.get(argument.dtype, 'u8')}"
    return "i32" if isinstance(argument, int) else "fp32"


def _resources(found: Any) -> Resources:
    import triton

    tool = Path(triton.__path__[0]) / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(found.asm["cubin"])
        told = subprocess.run(
            [tool, "--dump-resource-usage", file], capture_output=True, text=True, check=True
        ).stdout
    usage = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", told))
    assembly = found.asm["ptx"]
    return Resources(
        registers=int(usage["REG"]),
        spilled_bytes=int(usage["STACK"]) + int(usage["LOCAL"]),
        shared_bytes=found.metadata.shared,
        tensor_core=bool(re.search(r"(mma\.sync|wgmma\.mma_async|tcgen05\.mma)", assembly)),
        asynchronous="cp.async" in assembly,
    )


def main(capabilities: list[int]) -> None:
    """Prints a line for every head size and variant."""
    print("| capability | heads | kernel | registers | spilled bytes | shared KB | tensor cores | asynchronous |")
    print("|---|---|---|---|---|---|---|---|")
    variants = {"causal": {}, "masked": {"masked": True}, "capped": {"softcap": 30.0}, "groups": {"groups": True}}
    for capability in capabilities:
        for d in (64, 128, 256):
            for name, options in variants.items():
                one = compiled(capability, d, **options)
                yes = ["yes" if flag else "no" for flag in (one.tensor_core, one.asynchronous)]
                cells = [capability / 10, d, name, one.registers, one.spilled_bytes, f"{one.shared_bytes / 1024:.0f}"]
                print("| " + " | ".join(map(str, [*cells, *yes])) + " |", flush=True)


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]] or [80, 90])
