"""What is wrong with a name that nobody knows? Where it holds a comma, it is several names."""


def unknown(kind: str, name: str) -> str:
    """The beginning of a refusal: "unknown scope 'all,final'; separate names by spaces"."""
    return f"unknown {kind} {name!r}{'; separate names by spaces' if ',' in name else ''}"
