"""Can easier data teach a composition that hard data alone cannot?

Zixuan Wang, Eshaan Nichani, Alberto Bietti, Alex Damian, Daniel Hsu, Jason D. Lee and Denny Wu, "Learning
Compositional Functions with Transformers from Easy-to-Hard Data", 2025. Task: `toy_models.kfold`.

construction: do log2(k) + 1 attention layers compute k-fold composition exactly? (Theorem 4)
thm9: do fewer dimensions do, if few hidden permutations are not the identity? (Theorem 9)
thm5: how little does a statistical query tell about the hidden permutations? (Theorem 5, Lemmas 10, 12, Corollary 13)
thm7: does Algorithm 1 as printed make the error small at every input? (Theorem 7)
lemmas: are the printed gradients the gradients? (Lemmas 15, 18, 19, 23, 24, 28, Appendix E)
fig3-left: does a curriculum teach one hop per stage, and from how many samples? (Figure 3 left, Theorem 7)
fig3-middle: does a mixture of all hops teach one layer per step? (Figure 3 middle, Theorem 8)
fig3-right: does a standard encoder learn from the mixture, and only from it? (Figure 3 right)
cot-vs-curriculum: does chain of thought take fewer samples than easier hops? (beyond the paper)
"""
