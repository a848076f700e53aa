"""What does the GPU compute? One online softmax for attention's output and for the sums of every row; group masses.

Scores are in units of log 2 (the scale carries log2(e)), so that weights are powers of two, which the hardware has.
A program has a block of ROWS queries of one head and goes over tiles of KEYS keys. With m the largest score so far,

    total = sum_j 2^(s_j - m)                 score = sum_j 2^(s_j - m) (s_j - m)

and a tile that raises m to m' turns them, with a = 2^(m - m'), into

    a total                                   a (score + (m - m') total)

before its own keys are added: nothing large is ever subtracted. Key 1, the sink, is in none of the sums.
`launch` says what the arguments are. Triton compiles this module's functions; they cannot be called from Python.
"""

from typing import no_type_check

import triton
import triton.language as tl

UNSEEN = tl.constexpr(-1e30)  # as in `probes.attention.sums`


@triton.jit
@no_type_check
def _tile(pointers, inside, WHOLE: tl.constexpr):
    """What stands there, zero where it is not inside. WHOLE: all of it is."""
    if WHOLE:
        return tl.load(pointers)
    return tl.load(pointers, mask=inside, other=0.0)


@triton.jit
@no_type_check
def _scores(
    queries, key, key_rest, keys, scale, softcap, n_keys, key_row,
    D: tl.constexpr, D_BLOCK: tl.constexpr, SPLIT: tl.constexpr, CAPPED: tl.constexpr, PRECISION: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """The scores of a block of queries for a tile of keys. SPLIT: a key is the sum of its parts in two tensors."""
    dims = tl.arange(0, D_BLOCK)
    place = keys[None, :] * key_row + dims[:, None]
    inside = (keys[None, :] < n_keys) & (dims[:, None] < D)
    whole: tl.constexpr = WHOLE and D == D_BLOCK
    scores = tl.dot(queries, _tile(key + place, inside, whole), input_precision=PRECISION)
    if SPLIT:
        scores = tl.dot(queries, _tile(key_rest + place, inside, whole), scores, input_precision=PRECISION)
    scores *= scale
    if CAPPED:  # cap * tanh(x / cap); the scale carries 2 / cap
        scores = softcap - 2 * softcap / (tl.exp2(scores) + 1)
    return scores


@triton.jit
@no_type_check
def _visible(mask, rows, keys, n_queries, n_keys, mask_row, MASKED: tl.constexpr):
    """Which queries see which keys: as `mask` says, or causal with the queries as the last keys."""
    if MASKED:
        inside = (rows[:, None] < n_queries) & (keys[None, :] < n_keys)
        place = rows[:, None].to(tl.int64) * mask_row + keys[None, :]
        return tl.load(mask + place, mask=inside, other=0) != 0
    return keys[None, :] <= rows[:, None] + (n_keys - n_queries)


@triton.jit
@no_type_check
def _with_tile(
    first, largest, total, score, product,
    queries, key, key_rest, value, mask, tile, rows, scale, softcap, n_queries, n_keys, key_row, value_row, mask_row,
    D: tl.constexpr, D_BLOCK: tl.constexpr, D_VALUE: tl.constexpr, D_VALUE_BLOCK: tl.constexpr, KEYS: tl.constexpr,
    SPLIT: tl.constexpr, MASKED: tl.constexpr, CAPPED: tl.constexpr, VALUED: tl.constexpr, PRECISION: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """The sums with one more tile. WHOLE: every query sees every key of it, and key 1 is elsewhere."""
    keys = tile * KEYS + tl.arange(0, KEYS)
    scores = _scores(
        queries, key, key_rest, keys, scale, softcap, n_keys, key_row, D, D_BLOCK, SPLIT, CAPPED, PRECISION, WHOLE
    )
    if not WHOLE:
        scores = tl.where(_visible(mask, rows, keys, n_queries, n_keys, mask_row, MASKED), scores, UNSEEN)
        first = tl.maximum(first, tl.max(tl.where(keys[None, :] == 0, scores, UNSEEN), 1))
        scores = tl.where(keys[None, :] == 0, UNSEEN, scores)
    new = tl.maximum(largest, tl.max(scores, 1))
    shrink = tl.exp2(largest - new)
    scores -= new[:, None]
    weights = tl.exp2(scores)  # of UNSEEN: zero, because `largest` begins far above it
    score = shrink * (score + (largest - new) * total) + tl.sum(weights * scores, 1)
    total = shrink * total + tl.sum(weights, 1)
    if VALUED:
        dims = tl.arange(0, D_VALUE_BLOCK)
        place = keys[:, None] * value_row + dims[None, :]
        inside = (keys[:, None] < n_keys) & (dims[None, :] < D_VALUE)
        values = _tile(value + place, inside, WHOLE and D_VALUE == D_VALUE_BLOCK)
        product = tl.dot(weights.to(values.dtype), values, product * shrink[:, None], input_precision=PRECISION)
    return first, new, total, score, product


@triton.jit(do_not_specialize=["n_heads", "n_queries", "n_keys", "mask_batch", "tiles_batch", "tiles_row", "plane"])
@no_type_check
def attention_rows(
    query, key, key_rest, value, mask, tiles, n_whole, n_seen, output, sums,
    scale, softcap, n_heads, n_queries, n_keys,
    query_batch, query_head, query_row, key_batch, key_head, key_row, value_batch, value_head, value_row,
    mask_batch, mask_row, tiles_batch, tiles_row, plane,
    GROUP: tl.constexpr, D: tl.constexpr, D_BLOCK: tl.constexpr, D_VALUE: tl.constexpr, D_VALUE_BLOCK: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, SPLIT: tl.constexpr, MASKED: tl.constexpr, CAPPED: tl.constexpr,
    VALUED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attention's output and the four sums of `probes.attention.sums.RowSums`, in units of log 2, of ROWS queries."""
    block = tl.num_programs(0) - 1 - tl.program_id(0)  # the last queries see the most keys: they begin
    head = (tl.program_id(1) % n_heads).to(tl.int64)
    batch = (tl.program_id(1) // n_heads).to(tl.int64)
    rows = block * ROWS + tl.arange(0, ROWS)
    dims = tl.arange(0, D_BLOCK)
    query += batch * query_batch + head * query_head
    inside = (rows[:, None] < n_queries) & (dims[None, :] < D)
    queries = tl.load(query + rows[:, None].to(tl.int64) * query_row + dims[None, :], mask=inside, other=0.0)
    key += batch * key_batch + (head // GROUP) * key_head
    key_rest += batch * key_batch + (head // GROUP) * key_head
    value += batch * value_batch + (head // GROUP) * value_head
    mask += batch * mask_batch
    tiles += batch * tiles_batch + block * tiles_row
    if MASKED:
        whole = tl.load(n_whole + batch * (tiles_batch // tiles_row) + block)
        seen = tl.load(n_seen + batch * (tiles_batch // tiles_row) + block)
    else:
        last = tl.minimum(block * ROWS + ROWS, n_queries) + n_keys - n_queries  # keys that the last query sees
        seen = tl.cdiv(last, KEYS)
        whole = tl.maximum((block * ROWS + 1 + n_keys - n_queries) // KEYS - 1, 0)

    first = tl.full([ROWS], UNSEEN, tl.float32)
    largest = tl.full([ROWS], UNSEEN / 2, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    score = tl.zeros([ROWS], tl.float32)
    product = tl.zeros([ROWS, D_VALUE_BLOCK], tl.float32)
    for i in range(whole):  # the tiles of which every query sees every key
        tile = tl.load(tiles + i) if MASKED else i + 1
        first, largest, total, score, product = _with_tile(
            first, largest, total, score, product,
            queries, key, key_rest, value, mask, tile, rows, scale, softcap,
            n_queries, n_keys, key_row, value_row, mask_row,
            D, D_BLOCK, D_VALUE, D_VALUE_BLOCK, KEYS, SPLIT, MASKED, CAPPED, VALUED, PRECISION, WHOLE=True,
        )  # fmt: skip
    for i in range(whole, seen):  # the others, among them that of key 1
        tile = tl.load(tiles + i) if MASKED else tl.where(i == whole, 0, i)
        first, largest, total, score, product = _with_tile(
            first, largest, total, score, product,
            queries, key, key_rest, value, mask, tile, rows, scale, softcap,
            n_queries, n_keys, key_row, value_row, mask_row,
            D, D_BLOCK, D_VALUE, D_VALUE_BLOCK, KEYS, SPLIT, MASKED, CAPPED, VALUED, PRECISION, WHOLE=False,
        )  # fmt: skip

    largest = tl.where(total == 0, UNSEEN, largest)  # no key but key 1
    total = tl.where(total == 0, 1.0, total)  # its logarithm is asked for
    sums += (batch * n_heads + head) * n_queries + rows
    tl.store(sums, first, mask=rows < n_queries)
    tl.store(sums + plane, largest, mask=rows < n_queries)
    tl.store(sums + 2 * plane, total, mask=rows < n_queries)
    tl.store(sums + 3 * plane, score, mask=rows < n_queries)
    if VALUED:
        odds = largest + tl.log2(total) - first
        of_first = tl.where(first < UNSEEN / 2, 0.0, 1 / (1 + tl.exp2(odds)))
        of_others = 1 / (1 + tl.exp2(-odds)) / total
        dims_value = tl.arange(0, D_VALUE_BLOCK)
        first_value = tl.load(value + dims_value, mask=dims_value < D_VALUE, other=0.0).to(tl.float32)
        mixed = product * of_others[:, None] + of_first[:, None] * first_value[None, :]
        place = ((batch * n_queries + rows[:, None]) * n_heads + head) * D_VALUE + dims_value[None, :]
        inside = (rows[:, None] < n_queries) & (dims_value[None, :] < D_VALUE)
        tl.store(output + place, mixed.to(output.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["n_heads", "n_queries", "n_keys", "n_columns", "mask_batch", "plane"])
@no_type_check
def group_rows(
    query, key, key_rest, mask, sums, columns, begins, ends, mass,
    scale, softcap, n_heads, n_queries, n_keys, n_columns,
    query_batch, query_head, query_row, key_batch, key_head, key_row, mask_batch, mask_row, plane,
    GROUP: tl.constexpr, D: tl.constexpr, D_BLOCK: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, COLUMNS: tl.constexpr, SPLIT: tl.constexpr, MASKED: tl.constexpr,
    CAPPED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The sums of 2^(s_j - m) over the keys of COLUMNS groups, but key 1, with the m that `attention_rows` found.

    `columns` are zeros and ones, so a product with them is exact; the weights go into it in three parts of bfloat16,
    which together have the digits of float32.
    """
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    head = (tl.program_id(2) % n_heads).to(tl.int64)
    batch = (tl.program_id(2) // n_heads).to(tl.int64)
    rows = block * ROWS + tl.arange(0, ROWS)
    dims = tl.arange(0, D_BLOCK)
    query += batch * query_batch + head * query_head
    inside = (rows[:, None] < n_queries) & (dims[None, :] < D)
    queries = tl.load(query + rows[:, None].to(tl.int64) * query_row + dims[None, :], mask=inside, other=0.0)
    key += batch * key_batch + (head // GROUP) * key_head
    key_rest += batch * key_batch + (head // GROUP) * key_head
    mask += batch * mask_batch
    sums += (batch * n_heads + head) * n_queries + rows
    largest = tl.load(sums + plane, mask=rows < n_queries, other=0.0)
    groups = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    end = tl.load(ends + tl.program_id(1))
    if not MASKED:
        last = tl.minimum(block * ROWS + ROWS, n_queries) + n_keys - n_queries
        end = tl.minimum(end, tl.cdiv(last, KEYS))
    found = tl.zeros([ROWS, COLUMNS], tl.float32)
    for tile in range(tl.load(begins + tl.program_id(1)), end):
        keys = tile * KEYS + tl.arange(0, KEYS)
        scores = _scores(
            queries, key, key_rest, keys, scale, softcap, n_keys, key_row,
            D, D_BLOCK, SPLIT, CAPPED, PRECISION, WHOLE=False,
        )  # fmt: skip
        seen = _visible(mask, rows, keys, n_queries, n_keys, mask_row, MASKED) & (keys[None, :] > 0)
        weights = tl.where(seen, tl.exp2(scores - largest[:, None]), 0.0)
        place = keys[:, None].to(tl.int64) * n_columns + groups[None, :]
        ones = tl.load(columns + place, mask=keys[:, None] < n_keys, other=0.0)
        for _ in tl.static_range(3):
            part = weights.to(tl.bfloat16)
            found = tl.dot(part, ones, found)
            weights -= part.to(tl.float32)
    place = ((batch * n_heads + head) * n_queries + rows[:, None]) * n_columns + groups[None, :]
    tl.store(mass + place, found, mask=rows[:, None] < n_queries)
