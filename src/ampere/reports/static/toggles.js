// Hides and shows layers kind by kind, lets the rest close up, and says what they cost together.
(() => {
  "use strict";

  function makeToggling(box) {
    const svg = box.querySelector("svg"), output = box.querySelector("output");
    const inputs = [...box.querySelectorAll("input")];
    const rows = [...svg.querySelectorAll(".row")];
    const lengths = rows.map((row) => row.querySelector(".length"));
    const joules = rows.map((row) => Number(row.dataset.j));
    const highs = rows.map((row) => Number(row.dataset.high));
    const top = Number(svg.dataset.top), each = Number(svg.dataset.row);
    const size = Number(box.dataset.size), whole = joules.reduce((a, b) => a + b, 0);
    const all = output.textContent;

    function update() {
      const wanted = new Set(inputs.filter((input) => input.checked).map((input) => input.value));
      const seen = rows.map((row) => wanted.has(row.dataset.group));
      const longest = Math.max(...highs.filter((_, at) => seen[at]));
      const wider = longest > 0 ? Math.max(...highs) / longest : 1;
      let count = 0, sum = 0;
      rows.forEach((row, at) => {
        row.setAttribute("display", seen[at] ? "inline" : "none");
        if (!seen[at]) return;
        row.setAttribute("transform", `translate(1 ${top + each * count})`);
        lengths[at].setAttribute("transform", `scale(${wider} 1)`);
        count += 1;
        sum += joules[at];
      });
      svg.setAttribute("viewBox", `0 0 ${svg.viewBox.baseVal.width} ${top + each * Math.max(count, 1)}`);
      const share = whole ? `, ${((100 * sum) / whole).toFixed(1)} % of all layers` : "";
      const some = `${(sum / size).toPrecision(4)} ${box.dataset.unit} a step${share}`;
      output.textContent = count === rows.length ? all : some;
    }

    inputs.forEach((input) => input.addEventListener("change", update));
    box.querySelector("fieldset").hidden = false;
  }

  document.querySelectorAll(".toggles").forEach(makeToggling);
})();
