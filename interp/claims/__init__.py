"""Which claims are tested? One package for each paper, one file for each figure, theorem or mechanism.

| package    | task                               | paper                                              |
|------------|------------------------------------|----------------------------------------------------|
| wen2024    | `toy_models.parity`, `hf_analysis` | CoT, sample complexity and sparse attention        |
| kim2024    | `toy_models.tree_parity`           | parity by a tree of two-bit parities               |
| huang2025  | `toy_models.lego`                  | length generalisation in state tracking            |
| li2024     | `toy_models.incontext`             | CoT learned from the examples of a prompt          |
| wang2025   | `toy_models.kfold`                 | k-fold composition, from easy to hard data         |
| bogdan2025 | `hf_analysis.traces`               | which sentences of a reasoning trace matter        |
| lanham2023 | `hf_analysis.traces`               | whether an answer depends on its chain of thought  |

A file whose name starts with an underscore holds what several claims of its paper share: their runs and figures.
"""
