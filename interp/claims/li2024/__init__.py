"""When does a transformer reason step by step from the examples of its prompt?

Hongkang Li, Meng Wang, Songtao Lu, Xiaodong Cui and Pin-Yu Chen, "How Do Nonlinear Transformers Acquire
Generalization-Guaranteed CoT Ability?", 2024. Task: `toy_models.incontext`.

fig2: does CoT need more examples when they are less similar, accurate or clear? (Figure 2, Theorem 2)
fig3: does in-context learning (ICL) need more of them? (Figure 3, Theorem 3)
fig4: does CoT succeed where the most likely label is wrong? (Figure 4, Condition 1)
fig5: does attention leave other steps first, then other patterns? (Figure 5)
thm1: how many updates, examples and samples does training take? (Theorem 1, Lemma F.6)
lemmas: is the gradient where the proof has it, in either stage? (Lemmas F.5, F.7)
prop1: is attention on the right examples at every step, with any noise? (Proposition 1, conditions 14 and 22)
log-m: does the number of examples grow with that of patterns? (the factor log M of Theorems 2 and 3)
phase: over all accuracies and primacies, who wins, CoT or ICL? (beyond the paper)
decoder: does a standard decoder fail and succeed where the theory model does? (beyond the paper)
"""
