"""How are numbers of things said in one line?"""


def counts(**numbers: int) -> str:
    """Numbers with the names of what they count, in the plural where it is not one: "30 layers, 1 text"."""
    return ", ".join(f"{n} {name.replace('_', ' ')}{'' if n == 1 else 's'}" for name, n in numbers.items())
