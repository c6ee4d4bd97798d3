"""`ampere report`: a profile, or a plan, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import AsJson, Method
from ampere.cli.shell import json_text

if TYPE_CHECKING:
    from ampere.reports.html import Report


def report(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A profile, or what `ampere schedule -o` wrote.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder for its charts, as SVG and PNG.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Whose layers to show. Default: what the profile was made for, if it is of the"
            " zoo, else its largest network.",
        ),
    ] = None,
    input: Annotated[
        str | None, typer.Option(metavar="SHAPES", help="One sample of MODEL: 3x32x32.")
    ] = None,
    method: Method = "additive",
    as_json: AsJson = False,
) -> str:
    """Make a page of a profile, or of a plan.

    One HTML file for any browser, without any network. Of a profile: where the joules go, what
    layers cost at other widths, how well the profile agrees with itself, what was profiled and what
    that took. Of a plan: who runs what and when, how batteries stand, what was not placed.
    """
    if output is None and figures is None:
        raise typer.BadParameter("give -o FILE for a page, or --figures DIR for its charts")
    if input is not None and model is None:
        raise typer.BadParameter("--input goes with --model")
    from ampere.reports.html import refuse_to_overwrite, written_together

    if output is not None:
        refuse_to_overwrite(output)
    from ampere.fleet.plan import is_plan

    if is_plan(path):
        if figures is not None or model is not None:
            raise typer.BadParameter("--figures and --model go with a profile: this is a plan")
        page = _of_plan(path)
    else:
        _refuse_what_is_neither(path)
        page = _of_profile(path, method, model, input)
    with written_together() as charts:
        if figures is not None:
            charts += page.save_figures(figures)
        if output is not None:
            page.save(output)
    if as_json:
        page_path = None if output is None else str(output)
        return json_text({"page": page_path, "figures": [str(chart) for chart in charts]})
    lines = [f"wrote {output}: open it in a browser"] if output is not None else []
    return "\n".join([*lines, *(f"wrote {chart}" for chart in charts)])


def _refuse_what_is_neither(path: Path) -> None:
    """What a plan is made from, or a page, is no plan yet."""
    from ampere.errors import DataError

    if path.suffix.lower() in (".toml", ".html"):
        raise DataError(
            f"{path} is neither a profile nor a plan: give what `ampere profile` or"
            " `ampere schedule -o plan.json` wrote"
        )


def _of_plan(path: Path) -> Report:
    from ampere.fleet.plan import read_plan
    from ampere.reports.plan_page import report_plan

    return report_plan(read_plan(path))


def _of_profile(path: Path, method: str, model: str | None, input: str | None) -> Report:
    from ampere.profiles.profile import Profile
    from ampere.reports.profile_page import report as report_profile

    return report_profile(Profile.load(path, method, keep_fit=True), model, input)


REPORT = Command(report, "ampere report cnn5.ampere -o report.html")
