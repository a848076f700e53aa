"""Can easier data teach a composition that hard data alone cannot?

Zixuan Wang, Eshaan Nichani, Alberto Bietti, Alex Damian, Daniel Hsu, Jason D. Lee and Denny Wu, "Learning
Compositional Functions with Transformers from Easy-to-Hard Data", 2025. Task: `toy_models.kfold`.

construction: do log2(k) + 1 attention layers compute k-fold composition exactly? (Theorem 4)
fig3-left: does a curriculum teach one hop per stage, and from how many samples? (Figure 3 left, Theorem 7)
fig3-middle: does a mixture of all hops teach one layer per step? (Figure 3 middle, Theorem 8)
fig3-right: does a standard encoder learn from the mixture, and only from it? (Figure 3 right)
cot-vs-curriculum: does chain of thought take fewer samples than easier hops? (beyond the paper)
"""
