"""How a claim is declared, run, judged and kept."""
