"""Compile the programs for a GPU that need not be there; tests run this without the interpreter."""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mncover.engine.kernels import gpu, tiles
from mncover.engine.kernels.triton_attention import attend, row_totals
from mncover.engine.kernels.triton_bins import STATES
from mncover.engine.kernels.triton_masks import look_up
from mncover.engine.kernels.triton_values import read_values

POINTERS = {
    **dict.fromkeys(("low", "high", "tops", "totals"), "*fp32"),
    **dict.fromkeys(("keep", "codes"), "*u8"),
    **dict.fromkeys(("bits", "masked", "old", "old_masked", "first", "first_masked"), "*i32"),
    **dict.fromkeys(("index", "numbers", "which", "faults"), "*i32"),
    **dict.fromkeys(("ids", "keys"), "*i64"),
    **dict.fromkeys(("flags", "tokens", "pairs"), "*u8"),
}


def compiled(
    program: Any, kind: str, options: dict[str, int], constants: dict[str, Any], chip: int
) -> Any:
    """Compile one program for states of one type."""
    states = dict.fromkeys(STATES, f"*{kind}")
    others = {"scale": "fp32"}
    signature = {
        name: "constexpr"
        if name in constants
        else (POINTERS | states | others).get(name, "i64" if "values_" in name else "i32")
        for name in program.arg_names
    }
    fixed = {(program.arg_names.index(name),): value for name, value in constants.items()}
    aligned = {
        (number,): [["tt.divisibility", 16]]
        for number, one in enumerate(program.params)
        if one.name in STATES and not one.do_not_specialize
    }
    source = ASTSource(program, signature, fixed, aligned)
    return triton.compile(source, target=GPUTarget("cuda", chip, 32), options=options)


def main() -> None:
    """Compile for the length of texts, and the chip, that are asked for."""
    length, chip = map(int, sys.argv[1:])
    tile, whole = tiles.tile_for(length), length <= tiles.WHOLE_LENGTH
    for mode, (flag, kind) in product(range(3), ((False, "fp32"), (True, "fp16"))):
        flags = {
            "MODE": mode,
            "MASKED": flag,
            "FIRST": flag and mode == 1,
            "LONG": False,
            "TIES": 0,
            "PTX": True,
        }
        size = {"M": tile.rows, "N": tile.columns, "WIDTH": 64, "D": 64}
        how = {"CAUSAL": flag, "PRECISION": "tf32", "STEP": 16}
        item = 2 if kind == "fp16" else 4
        options = {
            "num_warps": tile.warps,
            "num_stages": tiles.stages_for(tile, 64, item),
            "maxnreg": tile.registers,
        }
        found = compiled(attend, kind, options, {**flags, **how, **size, "WHOLE": whole}, chip)
        ahead = "async_copy_global_to_local" in found.asm["ttgir"]
        print("attend", mode, flag, kind, found.metadata.shared, "ahead" if ahead else "waits")
        if length == 16:
            kinds = {"fp32": tl.float32, "fp16": tl.float16}
            more = {"ALIGNED": flag, "KIND": kinds[kind], "BLOCK": gpu.BLOCK}
            compiled(read_values, kind, {"num_warps": 4}, {**flags, **more}, chip)
            compiled(look_up, kind, {"num_warps": 4}, {"BY_WORDS": flag, "BLOCK": gpu.BLOCK}, chip)
        if not whole:
            compiled(row_totals, kind, {"num_warps": 4}, {**how, **size}, chip)


if __name__ == "__main__":
    main()
