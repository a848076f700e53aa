"""cotlens claims list, show, judge, declare and severity: what `results/` holds, and whether it can be believed."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from interp.core.claim import Claim, Preset, find_claims, load_claims
from interp.core.ledger import concluded, footnote
from interp.core.protocol import RESULTS
from interp.core.published import (
    Published,
    all_published,
    claim_of,
    differences,
    judged_again,
    published_units,
    read_published,
    refresh,
)
from interp.core.runs import check_file

if TYPE_CHECKING:
    from interp.commands.claims import Declare, Judge, List, Severity, Show


def list_claims(options: "List") -> None:
    """One line for each claim: conclusion, status and sentence."""
    check_file(options.json, ".json", "--json")
    if options.results != RESULTS and not options.results.is_dir():
        raise ValueError(f"--results {options.results}: there is no such directory")
    found = {one.record.claim: one.record for one in all_published(options.results)}
    claims = load_claims()
    listed, told = [], []
    for claim_id in sorted(claims):
        claim, record = claims[claim_id], found.get(claim_id)
        told += [concluded(claim, record.judgement)] if record else []
        said = f"{told[-1]}, {record.status}" if record else "not run"
        scale = record.scale.split(":")[0] if record else ""
        print(f"{claim.id:<32} {said:<32} {scale:<24} {claim.sentence}")
        listed.append(
            {
                "id": claim.id,
                "sentence": claim.sentence,
                "conclusion": record.judgement.conclusion if record else None,
                "status": record.status if record else None,
                "scale": record.scale if record else None,
                "finding": record.judgement.finding if record else None,
                "falls_short": (claim.shortfall(record.judgement.conclusion) or None) if record else None,
            }
        )
    print(footnote(told), end="")
    if not found:
        print(f"no published results in {options.results}/: the repository has them; --results says where they are")
    if options.json is not None:
        from probes.base.atomic import write_json

        write_json(options.json, listed)


def show_claim(options: "Show") -> None:
    """The claim's page in the terminal: published results if there are any, else what would be tested."""
    from rich.console import Console
    from rich.markdown import Markdown

    from interp.report.ledger_pages import claim_page, declared_page, planned

    (claim,) = find_claims([options.id])
    published = (options.results / claim.id / "judgement.json").is_file()
    found = read_published(claim.id, options.results) if published else None
    page = declared_page(claim) if found is None else claim_page(claim, found, as_list=True)
    Console().print(Markdown(page + planned(claim.id, options.results)))


def judge_claims(options: "Judge") -> None:
    """Recomputes the verdicts of published claims; differences are listed and, with --write, entered.

    A claim that cannot be judged, as one whose preset has changed since its run, is told and left as it is.
    """
    chosen = _published(options.ids, options.results)
    differing, refused, told = 0, [], []
    for found in chosen:
        try:
            claim = claim_of(found)
            again = judged_again(claim, found, found.directory.parents[1])
        except ValueError as error:
            if len(chosen) > 1:
                print(f"{found.record.claim:<32} NOT JUDGED: {error}")
            refused.append(str(error))
            continue
        complaints = differences(found, again.judgement.verdicts)
        if again.judgement.conclusion != found.record.judgement.conclusion or again.status != found.record.status:
            complaints.append(
                f"conclusion {again.judgement.conclusion} ({again.status}), "
                f"published {found.record.judgement.conclusion} ({found.record.status})"
            )
        told.append(concluded(claim, again.judgement))
        print(f"{claim.id:<32} {told[-1]}, {again.status}{'' if not complaints else ': DIFFERS'}")
        for complaint in complaints:
            print(f"    {complaint}")
        differing += bool(complaints)
        if options.write:
            refresh(claim, found.directory.parents[1])
    print(footnote(told), end="")
    if options.write:
        for results in {found.directory.parents[1] for found in chosen}:
            write_pages(results)
    if refused:
        raise ValueError(
            refused[0] if len(chosen) == 1 else f"{len(refused)} of {len(chosen)} claims were not judged"
        )
    if differing and not options.write:
        raise ValueError(f"{differing} of {len(chosen)} claims differ from {options.results}; --write enters them")
    agree = "" if differing else ", as published"
    print(f"{len(chosen)} {'claim' if len(chosen) == 1 else 'claims'} judged from published rows{agree}")


def declare_claims(options: "Declare") -> None:
    """Writes protocols; refuses units that a published run or another protocol of the same claim has used."""
    from interp.commands.claims import chosen_presets
    from interp.core.protocol import declare, protocol

    if not options.ids:
        raise ValueError("name at least one claim, or all; cotlens claims list shows them")
    claims = find_claims(options.ids)
    presets = chosen_presets(claims, options)
    for claim, preset in zip(claims, presets):
        own = protocol(claim, options.preset, preset)["hash"]
        _require_fresh(claim, preset, own, options.results)
    for claim, preset in zip(claims, presets):
        print(f"{declare(claim, options.preset, preset, options.results)}")
    print("commit these files before the run begins: cotlens claims run with the same options is then confirmatory")


def _require_fresh(claim: Claim, preset: Preset, own: str, results: Path) -> None:
    """Refuses units of any run that was published, or of another protocol, whether it was run or not."""
    from interp.core.protocol import declared_units, units_of

    used = published_units(claim.id, results)
    used += [units for digest, units in declared_units(claim.id, results) if digest != own]
    mine = units_of(vars(preset))
    for units in used:
        if both := range(max(units.start, mine.start), min(units.stop, mine.stop)):
            raise ValueError(
                f"{claim.id}: a published run or an earlier protocol used the units {both.start} to {both.stop - 1} "
                f"already; declare fresh ones with --first-unit {max(one.stop for one in used)} or more"
            )


def simulate_claims(options: "Severity") -> None:
    """The severity table of the claims that have worlds."""
    from rich.console import Console
    from rich.table import Table

    from interp.core.severity import severity
    from probes.base.atomic import write_json

    check_file(options.json, ".json", "--json")
    rows = [row for claim in find_claims(list(options.ids)) for row in severity(claim, options.draws)]
    table = Table(title=f"{options.draws} draws of each world")
    for column in ("claim", "world", "part", "truth", "right", "wrong"):
        table.add_column(column)
    for row in rows:
        style = "red" if row.above_nominal else None
        words = (row.claim, row.world, row.part, str(row.truth).lower(), f"{row.right:.2f}", f"{row.wrong:.3f}")
        table.add_row(*words, style=style)
    Console().print(table)
    if options.json is not None:
        write_json(options.json, [row.record() for row in rows])


def write_pages(results: Path) -> None:
    """Writes the pages of papers, the dataset card, the README's findings and the numbers of docs/ anew."""
    from interp.report.ledger_card import write_card
    from interp.report.ledger_pages import write_paper_pages
    from interp.site import numbers

    found = list(all_published(results))
    write_paper_pages(found, results)
    write_card(found, results)
    if (docs := results.parent / "docs").is_dir():
        try:
            numbers.main(docs, results)
        except ValueError as error:  # words cannot be filled in
            print(f"{docs}: {error}")


def _published(ids: Sequence[str], results: Path) -> list[Published]:
    if list(ids) == ["all"]:
        found = list(all_published(results))
        if not found:
            raise ValueError(f"{results} holds no published claim")
        return found
    return [read_published(*_place(name, results)) for name in ids]


def _place(name: str, results: Path) -> tuple[str, Path]:
    """The claim and the results that `name` means: an id, or the directory of a claim in any results."""
    directory = Path(name)
    if (directory / "judgement.json").is_file():
        resolved = directory.resolve()
        return f"{resolved.parent.name}/{resolved.name}", resolved.parents[1]
    return find_claims([name])[0].id, results
