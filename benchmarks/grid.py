"""The table of grid intensities that `--carbon FR` looks into: src/ampere/core/grid.json.

    pip install --no-deps codecarbon && pip install pycountry     # in an environment of its own
    python benchmarks/grid.py

CodeCarbon (MIT) carries, country by country, yearly intensities of Our World in Data (CC BY 4.0,
after Ember and the Energy Institute). Only these facts are taken: grams of CO2e a kilowatt-hour,
and of which year. Names of countries are those of ISO 3166, as pycountry has them. A country whose
intensity is 0 is left out: that is a missing number.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src/ampere/core/grid.json"
ABOUT = {
    "about": "Yearly mean carbon intensity of electricity, by country.",
    "unit": "gCO2e/kWh",
    "source": "Our World in Data",
    "address": "https://ourworldindata.org/grapher/carbon-intensity-electricity",
    "licence": "CC BY 4.0",
    "after": "Ember; Energy Institute, Statistical Review of World Energy",
    "columns": "ISO 3166 alpha-2, alpha-3, English names, intensity, year",
}
SHORT = {"GBR": ("UK", "Great Britain"), "ARE": ("UAE",), "CZE": ("Czech Republic",)}


def main() -> None:
    import pycountry

    spec = find_spec("codecarbon")
    if spec is None or spec.origin is None:
        raise SystemExit("install codecarbon first: pip install --no-deps codecarbon")
    data = Path(spec.origin).parent / "data/private_infra/global_energy_mix.json"
    rows = []
    for three, mix in sorted(json.loads(data.read_text(encoding="utf-8")).items()):
        country = pycountry.countries.get(alpha_3=three)
        if country is None or not mix["carbon_intensity"] > 0:
            print(f"left out: {mix['country_name']}, {mix['carbon_intensity']} g/kWh")
            continue
        name = mix["country_name"]
        others = (country.name, getattr(country, "common_name", ""), *SHORT.get(three, ()))
        names = [each for each in dict.fromkeys((name, *others)) if each and "," not in each]
        rows.append(
            [country.alpha_2, three, *names, round(mix["carbon_intensity"], 1), mix["year"]]
        )
    about = {**ABOUT, "taken_from": f"codecarbon {version('codecarbon')} (MIT), global_energy_mix"}
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows)
    head = json.dumps(about, indent=1, ensure_ascii=False).removesuffix("\n}")
    TARGET.write_text(f'{head},\n "countries": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    print(f"{len(rows)} countries, {TARGET.stat().st_size} bytes: {TARGET}")


if __name__ == "__main__":
    main()
