"""`ampere report`: a profile as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import AsJson, Method
from ampere.cli.shell import json_text


def report(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PROFILE",
            help="The profile's file.",
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
    """Make a page of a profile.

    One HTML file for any browser, without any network: where the joules go, what layers cost at
    other widths, how well the profile agrees with itself, what was profiled and what that took.
    """
    if output is None and figures is None:
        raise typer.BadParameter("give -o FILE for a page, or --figures DIR for its charts")
    if input is not None and model is None:
        raise typer.BadParameter("--input goes with --model")
    from ampere.reports.html import refuse_to_overwrite, written_together

    if output is not None:
        refuse_to_overwrite(output)
    from ampere.profiles.profile import Profile
    from ampere.reports.profile_page import report as report_profile

    page = report_profile(Profile.load(path, method, keep_fit=True), model, input)
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


REPORT = Command(report, "ampere report cnn5.ampere -o report.html")
