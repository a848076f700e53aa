"""What was measured and what holds? One self-contained HTML page, built from rows alone: no model, no torch.

sources           runs and published results             pretrained, tokens, toy  rows as columns for the explorers
board             a card for each claim, by paper        templates                escaping, of everything shown
sections, forest  what is on a card: figures, plots      page                     everything put into one file
errors            how often the judge would be wrong     ledger_pages, ledger_card  `results/` as Markdown
traces            traces, sentence by sentence           trace_page               `trace.html`, of one run alone
assets            page.html (the shell), claim.html (a claim), explorers, style sheets, scripts
"""

from interp.report.page import build, write_report

__all__ = ["build", "write_report"]
