// Turns surfaces: by dragging, by touch, by arrow keys; Home turns them back. What is drawn says where
// it stands (data-at) and when it is seen (data-when): see surface.py, whose projection this is.
(() => {
  "use strict";

  const KEYS = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const STEP = Math.PI / 36;

  function project(camera, [x, y, z]) {
    const cos = Math.cos(camera.turn), sin = Math.sin(camera.turn);
    const across = (x - 0.5) * cos - (y - 0.5) * sin;
    const near = (x - 0.5) * sin + (y - 0.5) * cos;
    const down = near * Math.sin(camera.tilt) - (z - 0.5) * camera.tall * Math.cos(camera.tilt);
    return { x: camera.x + camera.size * across, y: camera.y + camera.size * down, near };
  }

  function sides(camera) {
    const cos = Math.cos(camera.turn), sin = Math.sin(camera.turn);
    return new Set([`x${+(sin > 0)}`, `y${+(cos > 0)}`, `x${+(cos < 0)}y${+(sin > 0)}`]);
  }

  function read(mark) {
    const numbers = mark.dataset.at.split(" ").map(Number);
    const places = [];
    for (let at = 0; at < numbers.length; at += 3) places.push(numbers.slice(at, at + 3));
    return { mark, places, near: 0 };
  }

  function draw(svg, camera, marks) {
    const shown = sides(camera);
    for (const each of marks) {
      const { mark, places } = each;
      const seen = places.map((place) => project(camera, place));
      if (mark.hasAttribute("points")) {
        mark.setAttribute("points", seen.map((p) => `${p.x.toFixed(1)},${p.y.toFixed(1)}`).join(" "));
      } else {
        const [x, y] = mark.tagName === "circle" ? ["cx", "cy"] : ["x", "y"];
        mark.setAttribute(x, seen[0].x.toFixed(1));
        mark.setAttribute(y, (seen[0].y + (mark.tagName === "text" ? 4 : 0)).toFixed(1));
      }
      if (mark.dataset.when) {
        if (shown.has(mark.dataset.when)) mark.removeAttribute("display");
        else mark.setAttribute("display", "none");
      }
      each.near = seen.reduce((sum, p) => sum + p.near, 0) / seen.length;
    }
    const faces = marks.filter(({ mark }) => mark.classList.contains("face"));
    faces.sort((a, b) => a.near - b.near);
    svg.querySelector(".faces").replaceChildren(...faces.map(({ mark }) => mark));
  }

  function makeTurnable(svg) {
    const [turn, tilt, size, tall, x, y] = svg.dataset.camera.split(" ").map(Number);
    const camera = { turn, tilt, size, tall, x, y };
    const marks = [...svg.querySelectorAll("[data-at]")].map(read);

    function turnBy(across, up) {
      camera.turn += across;
      camera.tilt = Math.min(Math.max(camera.tilt + up, 0.05), 1.5);
      draw(svg, camera, marks);
    }

    let held = null;
    svg.addEventListener("pointerdown", (event) => {
      held = [event.clientX, event.clientY];
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (!held) return;
      const wide = svg.getBoundingClientRect().width;
      turnBy((-4 * (event.clientX - held[0])) / wide, (3 * (event.clientY - held[1])) / wide);
      held = [event.clientX, event.clientY];
    });
    for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => (held = null));
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Home") turnBy(turn - camera.turn, tilt - camera.tilt);
      else if (KEYS[event.key]) turnBy(KEYS[event.key][0] * STEP, KEYS[event.key][1] * STEP);
      else return;
      event.preventDefault();
    });
    svg.tabIndex = 0;
    svg.classList.add("turnable");
  }

  // Of several figures one is shown, and another one can be chosen.
  function makeChoosable(box) {
    const figures = [...box.querySelectorAll("figure")];
    const select = document.createElement("select");
    for (const figure of figures) select.add(new Option(figure.dataset.label));
    const label = document.createElement("label");
    label.append("Kind of layer: ", select);
    box.prepend(label);
    box.classList.add("one");
    const show = () => figures.forEach((figure, at) => (figure.hidden = at !== select.selectedIndex));
    select.addEventListener("change", show);
    show();
  }

  document.querySelectorAll("svg.surface").forEach(makeTurnable);
  document.querySelectorAll(".chooser").forEach(makeChoosable);
})();
