// The pictures over time zoom with the wheel about the pointer (with Control or Command held, so
// that the page still scrolls), move by dragging, and go back with a double click; they show the
// same time. Keys: + and - zoom, arrows move, 0 goes back.
"use strict";
function zoomPictures(root) {
  const pictures = [...root.querySelectorAll("svg.over-time")];
  const names = 150, width = 850;
  let from = 0, size = 1;
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "\u00b5s"], [1e-9, "ns"]];
  const roundStep = (least) => {
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-15)));
    return power * [1, 2, 5, 10].find((step) => step * power >= least * 0.999999);
  };
  const drawAxis = (axis, end) => {
    const [scale, unit] = units.find(([scale]) => size * end >= scale) ?? units[3];
    const step = roundStep(size * end / 6);
    const digits = Math.max(0, -Math.floor(Math.log10(step / scale)));
    const top = Number(axis.dataset.top);
    let text = "";
    for (let number = Math.ceil(from * end / step - 1e-9); number * step <= (from + size) * end * 1.000001; number++) {
      const x = names + (number * step / end - from) / size * width;
      const anchor = x > names + width - 20 ? "end" : "middle";
      text += `<line class="grid" x1="${x}" x2="${x}" y1="${top}" y2="${top + 5}"/>` +
        `<text x="${x}" y="${top + 18}" text-anchor="${anchor}">${(number * step / scale).toFixed(digits)}</text>`;
    }
    axis.innerHTML = text +
      `<text x="${names + width / 2}" y="${top + 38}" text-anchor="middle">time since the start, in ${unit}</text>`;
  };
  const draw = () => {
    size = Math.min(1, Math.max(1e-6, size));
    from = Math.min(1 - size, Math.max(0, from));
    for (const picture of pictures) {
      for (const inner of picture.querySelectorAll("svg.zoom")) {
        const height = inner.getAttribute("viewBox").split(" ")[3];
        inner.setAttribute("viewBox", `${from * 1000} 0 ${size * 1000} ${height}`);
      }
      for (const axis of picture.querySelectorAll("g.axis")) {
        drawAxis(axis, Number(picture.dataset.end));
      }
    }
  };
  const share = (picture, event) => {
    const box = picture.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width * 1000 - names) / width;
  };
  const zoom = (at, factor) => {
    const next = Math.min(1, Math.max(1e-6, size * factor));
    from += at * (size - next);
    size = next;
    draw();
  };
  for (const picture of pictures) {
    picture.setAttribute("tabindex", "0");
    picture.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(Math.min(1, Math.max(0, share(picture, event))), Math.exp(event.deltaY * 0.002));
    }, { passive: false });
    picture.addEventListener("keydown", (event) => {
      const actions = {
        "+": () => zoom(0.5, 0.7), "-": () => zoom(0.5, 1 / 0.7),
        ArrowLeft: () => { from -= size / 8; draw(); }, ArrowRight: () => { from += size / 8; draw(); },
        0: () => { from = 0; size = 1; draw(); },
      };
      if (!actions[event.key]) return;
      event.preventDefault();
      actions[event.key]();
    });
    let held = null;
    picture.addEventListener("pointerdown", (event) => {
      held = share(picture, event);
      picture.setPointerCapture(event.pointerId);
    });
    picture.addEventListener("pointermove", (event) => {
      if (held === null) return;
      const now = share(picture, event);
      from -= (now - held) * size;
      held = now;
      draw();
    });
    for (const name of ["pointerup", "pointercancel"]) {
      picture.addEventListener(name, () => { held = null; });
    }
    picture.addEventListener("dblclick", () => { from = 0; size = 1; draw(); });
  }
}
