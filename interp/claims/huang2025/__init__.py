"""How far does reasoning that was learned on short chains go?

Yu Huang, Zixin Wen, Aarti Singh, Yuejie Chi and Yuxin Chen, "Transformers Provably Learn Chain-of-Thought Reasoning
with Length Generalization", 2025. Task: `toy_models.lego`.

fig1a: trained at length 5, does C6 generalise far beyond S5? (Figure 1a)
fig1a-rate: does it at the paper's own rate, and does the gap last? (Figure 1a)
fig1b: does recursive self-training bring S5 to length 160? (Figure 1b)
fig2: does attention concentrate on the two target clauses? (Figure 2)
fig5: does attention follow the variable, not the position? (Figure 5)
fig6-7: how does attention dilute beyond the training length? (Figures 6 and 7)
neurons: does one neuron of the theory model learn each fact? (Theorems B.1 and C.1, equations 17 and 18)
thm4.1: does the theory model, trained at lengths 1 and 2, concentrate and go far? (Theorem 4.1)
thm5.1: does recursive self-training take S5 to every length? (Theorem 5.1, Corollary 5.1)
mechanism: are both retrievals required? (section 6.1.3, by knockouts of ours)
nope: do positions hinder what the model without them can do? (section 8)
regime: does the separation of Figure 1a depend on rate, data or tokens? (Figure 1a, one change at a time)
what-matters: is it simple transitivity, solvability or size that decides? (Theorem 1.2, on groups of ours)
"""
