// Draws the curves of runs, and keeps a page that is open as its server would send it now: by
// server-sent events, by asking every few seconds where those do not come through.
(() => {
  "use strict";

  const HEIGHT = 230, POLL_MS = 2000, PATIENCE_MS = 5000;
  const RUNS = ["--blue", "--orange", "--red", "--sky", "--ink", "--pale", "--blue", "--orange"];
  const STYLES = {
    spent: { colour: "--blue", width: 2.5 },
    forecast: { colour: "--orange", width: 1.5 },
    low: { colour: "--orange", width: 0 },
    high: { colour: "--orange", width: 0 },
    budget: { colour: "--red", width: 2, dash: [6, 4] },
    watts: { colour: "--blue", width: 1.5 },
  };
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const STEPS = [1, 2, 5, 10, 15, 30].flatMap((n) => [n, 60 * n]).concat(
    [1, 2, 3, 6, 12, 24, 48, 120, 240, 480, 960].map((n) => 3600 * n)).sort((a, b) => a - b);
  const charts = new Map(); // by the element that they are drawn in

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => (value == null ? "–" : String(Number(value.toPrecision(4))));

  const duration = (seconds, [size, unit]) => `${Number((seconds / size).toFixed(2))} ${unit}`;

  // 18 min 49 s
  function spelled(seconds) {
    const at = UNITS.findIndex(([size]) => seconds >= size);
    if (at < 0 || at === UNITS.length - 1) return duration(seconds, [1, "s"]);
    const [size, unit] = UNITS[at], [smaller, name] = UNITS[at + 1];
    const whole = Math.floor(seconds / size), rest = Math.floor((seconds % size) / smaller);
    return `${whole} ${unit}${rest ? ` ${rest} ${name}` : ""}`;
  }

  // What stands in a legend: the value below the cursor; without one, the latest.
  function told(chart, value, at, index, write) {
    const values = chart.data[at];
    const latest = index == null ? values.filter((each) => each != null).pop() : value;
    return latest == null ? "–" : write(latest);
  }

  function styleOf(line) {
    const run = /^run(\d+)$/.exec(line.style);
    if (!run) return STYLES[line.style] || STYLES.spent;
    const number = Number(run[1]);
    return { colour: RUNS[number % RUNS.length], width: 2, dash: number > 5 ? [5, 4] : undefined };
  }

  function seriesOf(line, unit) {
    const style = styleOf(line);
    return {
      label: line.label,
      stroke: () => colour(style.colour),
      width: style.width,
      dash: style.dash,
      spanGaps: false,
      points: { show: line.values.length < 3 && style.width > 0, size: 5 },
      value: (chart, value, at, index) => told(chart, value, at, index, (each) => `${short(each)} ${unit}`),
    };
  }

  function axis(more) {
    return {
      stroke: () => colour("--pale"),
      grid: { stroke: () => colour("--line"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
      ...more,
    };
  }

  // A forecast far beyond the budget would press all else to the ground: it leaves the picture.
  function topOf(plot, chart, most) {
    const at = (style) => plot.lines.findIndex((line) => line.style === style) + 1;
    if (!at("budget") || !at("spent")) return most;
    const shown = [...chart.data[at("budget")], ...chart.data[at("spent")]];
    return Math.min(most, 3 * Math.max(...shown));
  }

  function optionsOf(plot, width) {
    const low = plot.lines.findIndex((line) => line.style === "low") + 1;
    const high = plot.lines.findIndex((line) => line.style === "high") + 1;
    return {
      width,
      height: HEIGHT,
      series: [
        { label: "after", value: (chart, ...which) => told(chart, ...which, spelled) },
        ...plot.lines.map((line) => seriesOf(line, plot.unit)),
      ],
      bands: low && high ? [{ series: [high, low], fill: () => `${colour("--orange")}40` }] : [],
      scales: {
        x: { time: false },
        y: { range: (chart, _, most) => [0, 1.08 * topOf(plot, chart, most || 1)] },
      },
      axes: [
        axis({
          incrs: STEPS,
          values: (_, ticks) => {
            const last = ticks[ticks.length - 1] || 1;
            const unit = UNITS.find(([size]) => last >= 2 * size) || [1, "s"];
            return ticks.map((tick) => (tick === null ? "" : duration(tick, unit)));
          },
          space: 64,
          size: 30,
        }),
        axis({ size: 62, values: (_, ticks) => ticks.map((tick) => `${short(tick)} ${plot.unit}`) }),
      ],
      cursor: { drag: { x: true, y: false } },
      legend: {
        markers: {
          width: 0,
          fill: (_, at) => (at ? colour(styleOf(plot.lines[at - 1]).colour) : null),
        },
      },
    };
  }

  function tableOf(plot) {
    const [first] = plot.lines;
    if (plot.lines.every((line) => line === first || line.time_s === null)) {
      return [first.time_s, ...plot.lines.map((line) => line.values)];
    }
    const tables = plot.lines.map((line) => [line.time_s || first.time_s, line.values]);
    return uPlot.join(tables);
  }

  function show(box) {
    const plot = JSON.parse(box.dataset.plot);
    const shape = JSON.stringify([plot.unit, plot.lines.map((line) => [line.label, line.style])]);
    const kept = charts.get(box);
    if (kept && kept.shape === shape) {
      const { data: [time], scales: { x } } = kept.chart;
      const zoomed = x.min > time[0] || x.max < time[time.length - 1];
      kept.chart.setData(tableOf(plot), !zoomed);
      if (zoomed) kept.chart.redraw();
    } else {
      if (kept) kept.chart.destroy();
      const chart = new uPlot(optionsOf(plot, box.clientWidth || 320), tableOf(plot), box);
      charts.set(box, { chart, shape });
      sizes.observe(box);
    }
  }

  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const kept = charts.get(target);
      if (kept && target.clientWidth && target.clientWidth !== kept.chart.width) {
        kept.chart.setSize({ width: target.clientWidth, height: HEIGHT });
      }
    }
  });

  const said = new Map(); // what each piece was the last time, so that only news are replaced

  function isNews(key, html) {
    if (said.get(key) === html) return false;
    said.set(key, html);
    return true;
  }

  // A section as the server made it: texts in it are escaped there, and no script in it would run.
  function parsed(html) {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    return holder.content.querySelector("section");
  }

  function replacePanel(key, html) {
    const fresh = parsed(html), old = document.getElementById(key);
    for (const box of fresh.querySelectorAll("[data-plot]")) {
      const kept = old && old.querySelector(`[data-name="${box.dataset.name}"]`);
      if (!kept) continue;
      kept.dataset.plot = box.dataset.plot; // the chart stays, with what it is zoomed to
      box.replaceWith(kept);
    }
    if (old) old.replaceWith(fresh);
    else document.querySelector("main").append(fresh);
    fresh.querySelectorAll("[data-plot]").forEach(show);
  }

  function update(pieces) {
    document.title = pieces.title;
    for (const key of ["bar", "head"]) {
      if (isNews(key, pieces[key])) document.getElementById(key).innerHTML = pieces[key];
    }
    const main = document.querySelector("main"), keys = pieces.panels.map(([key]) => key);
    for (const [key, html] of pieces.panels) {
      if (isNews(`panel ${key}`, html)) replacePanel(key, html);
    }
    for (const section of [...main.children]) if (!keys.includes(section.id)) section.remove();
    const order = [...main.children].map((section) => section.id);
    if (order.join() !== keys.join()) main.append(...keys.map((key) => document.getElementById(key)));
    for (const [box, { chart }] of charts) {
      if (box.isConnected) continue;
      chart.destroy();
      charts.delete(box);
    }
  }

  function follow(address) {
    const link = document.getElementById("link");
    let events = null, timer = null, patience = null;

    function say(text, lost) {
      link.textContent = text;
      link.classList.toggle("lost", lost);
    }

    function stop() {
      clearTimeout(timer);
      clearTimeout(patience);
      if (events) events.close();
      events = null;
    }

    async function poll() {
      try {
        const answer = await fetch(`/state${address}`, { cache: "no-store" });
        if (!answer.ok) throw new Error(String(answer.status));
        update(await answer.json());
        say("live, asking every 2 s", false);
      } catch {
        say("no connection: what you see is old", true);
      }
      timer = setTimeout(poll, POLL_MS);
    }

    function begin() {
      stop();
      events = new EventSource(`/events${address}`);
      const giveUp = () => { stop(); poll(); };
      patience = setTimeout(giveUp, PATIENCE_MS);
      events.onmessage = (message) => {
        clearTimeout(patience);
        update(JSON.parse(message.data));
        say("live", false);
      };
      events.onerror = () => {
        say("no connection: what you see is old", true);
        if (!events || events.readyState === EventSource.CLOSED) giveUp();
      };
    }

    // A browser has six connections to a server: a page that nobody sees gives back its own.
    document.addEventListener("visibilitychange", () => (document.hidden ? stop() : begin()));
    begin();
  }

  document.querySelectorAll("[data-plot]").forEach(show);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const [box, { chart }] of [...charts]) {
      chart.destroy(); // its legend has colours, too
      charts.delete(box);
      show(box);
    }
  });
  if ("live" in document.body.dataset) follow(document.body.dataset.live);
})();
