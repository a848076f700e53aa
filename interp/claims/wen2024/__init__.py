"""What does chain of thought do to attention, and to the samples that learning takes?

Kaiyue Wen, Huaqing Zhang, Hongzhou Lin and Jingzhao Zhang, "From Sparse Dependence to Sparse Attention: Unveiling How
Chain-of-Thought Enhances Transformer Sample Efficiency", 2024, arXiv:2410.05459. Task: `toy_models.parity` (sections
3 and 4.1 to 4.2); pretrained models: `hf_analysis` (section 4.3).

fig1b: does accuracy jump when attention becomes sparse? (Figure 1b)
fig2: how does the number of samples grow with k, with and without CoT? (Figures 1a and 2)
fig3a: does it grow about linearly with k with CoT, at larger k? (Figure 3a)
fig3b: does step i attend to the i-th secret bit? (Figure 3b)
fig4: does repeated data teach parity without CoT, and do heads help more than layers? (Figure 4)
fig4-dropout: is it dropout that decides whether it does? (Figure 4, by the published code)
fig5-slow: without CoT, does attention become sparse before accuracy rises? (Figure 5, top)
fig5-size: does a small repeated dataset teach what a larger one does not? (Figures 5 and 10)
fig6: is the attention of a pretrained model sparser on CoT text? (Figures 6 and 7)
fig6-gsm8k: the same on the problems of GSM8K (Figures 6 and 7)
fig6-finetune: does fine-tuning on CoT data make attention sparser? (Figure 6, second claim, as an experiment)
fig6-scratch: are models trained here from scratch sparser if trained on CoT? (Figure 6, second claim, known data)
fig6-model: is a model trained on CoT data sparser than its base? (Figure 6, second claim, as published)
fig8: with two layers and two heads, does the first layer retrieve the secret bits? (Figure 8)
fig9: is there a parity that only CoT teaches? (Figure 9)
fig10: does the size of a repeated dataset decide what is learned, at equal samples? (Figure 10)
fig11: without CoT, are all heads sparse when accuracy jumps? (Figure 11)
n100: among a hundred bits, does training without CoT fail where CoT succeeds? (section 4.1)
thm1: can one simplified block represent parity without CoT? (Theorem 1)
thm2: does a small one learn it without CoT in one pass of SGD? (Theorem 2, a consistency check)
thm3: does it learn parity with CoT in three steps of SGD? (Theorem 3)
lemmas: do the quantities of Theorem 3's proof keep to their bounds? (Lemmas 7 to 27)
causal-sparsity: is sparse attention a cause of what CoT improves? (abstract, as an experiment)
mechanism-knockout: does a trained model use its attention to S[i]? (beyond the paper)
mechanism-running-parity: where is the running parity decodable? (beyond the paper)
mechanism-sparse-heads: do sparse heads of a pretrained model matter more? (beyond the paper)
mechanism-steps: does a pretrained model use its attention from step to step? (beyond the paper)
"""
