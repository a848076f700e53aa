"""What was measured and what holds? One self-contained HTML page, built from rows alone: no model, no torch.

sources   which run directories are there      pretrained, tokens, toy   rows as compact columns for the explorers
board     the verdict board                    page                      everything put into one file
sections  one section for each claim           *.html *.css *.js         the page's own parts
"""

from interp.report.page import build, write_report

__all__ = ["build", "write_report"]
