"""What can a reader look up that nobody had to write? Pages of the site made from results, registries and docstrings.

claims      one page for each claim and paper, from `results/`
reference   command line, columns, hooks of the toy models, API
numbers     numbers within hand-written pages, filled in from published verdicts
printed     the note as PDF
hooks       the events of MkDocs: `make docs` builds the site with them
"""
