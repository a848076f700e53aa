"""Toy transformers as hooked models: the papers' synthetic tasks, models and training.

    from toy_models import Parity, TreeParity, train_task

    decoder = train_task(Parity(n=20, k=3)).model  # the standard decoder, a TransformerLens model
    theory = train_task(TreeParity(), "theory").model  # kim2024's theory model, hooked alike

task                           room          the paper that asks
Parity                         parity        wen2024, "From Sparse Dependence to Sparse Attention"
TreeParity                     tree_parity   kim2024, "Transformers Provably Solve Parity Efficiently with CoT"
Lego                           lego          huang2025, "... Learn CoT Reasoning with Length Generalization"
IncontextCot, IncontextTokens  incontext     li2024, "... Acquire Generalization-Guaranteed CoT Ability?"
KFold, KFoldCot                kfold         wang2025, "Learning Compositional Functions ... from Easy-to-Hard Data"

Task, Batch, UNSUPERVISED, register_task      what a task is, and how yours becomes known to the command line
DecoderConfig, hooked_decoder                 the standard decoder, a TransformerLens model
train_task                                    any task by one of its models; `cotlens train --help` lists them
TrainConfig, train                            a decoder, or any hooked model of your own, on any task
attention_patterns                            what every head attends to
attention_rows, outcome_rows, training_rows   the run as rows of the table

What every task shares is in `toy_models.engine`. Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from probes.base.lazy import lazy_names

if TYPE_CHECKING:
    from toy_models.engine.decoder import DecoderConfig, hooked_decoder
    from toy_models.engine.evaluation import attention_patterns
    from toy_models.engine.recipe import train_task
    from toy_models.engine.run_rows import attention_rows, outcome_rows, training_rows
    from toy_models.engine.training import TrainConfig, train
    from toy_models.incontext.task import IncontextCot
    from toy_models.incontext.tokens_task import IncontextTokens
    from toy_models.kfold.cot_task import KFoldCot
    from toy_models.kfold.task import KFold
    from toy_models.lego.task import Lego
    from toy_models.parity.task import Parity
    from toy_models.task import UNSUPERVISED, Batch, Task
    from toy_models.task import register as register_task
    from toy_models.tree_parity.task import TreeParity

__all__ = [
    "UNSUPERVISED",
    "Batch",
    "DecoderConfig",
    "IncontextCot",
    "IncontextTokens",
    "KFold",
    "KFoldCot",
    "Lego",
    "Parity",
    "Task",
    "TrainConfig",
    "TreeParity",
    "attention_patterns",
    "attention_rows",
    "hooked_decoder",
    "outcome_rows",
    "register_task",
    "train",
    "train_task",
    "training_rows",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    __file__,
    moved={
        "toy_models.evaluation": "toy_models.engine.evaluation",
        "toy_models.measurement": "toy_models.engine.run_rows",
        "toy_models.models": "toy_models.engine.decoder",
        "toy_models.training": "toy_models.engine.training",
        "toy_models.tasks": "one room for each task: from toy_models import Parity, TreeParity, Lego, KFold, ...",
    },
)
