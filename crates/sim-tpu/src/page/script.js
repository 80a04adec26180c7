// The pictures over time zoom with the wheel about the pointer, move by dragging, and go
// back with a double click; they show the same time.
"use strict";
(() => {
  const pictures = [...document.querySelectorAll("svg.over-time")];
  let from = 0, size = 1;
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "\u00b5s"], [1e-9, "ns"]];
  const seconds = (value) => {
    const [scale, unit] = units.find(([scale]) => Math.abs(value) >= scale * 0.9995) || units[3];
    return (value / scale).toPrecision(4).replace(/\.?0+$/, "") + " " + unit;
  };
  const draw = () => {
    for (const picture of pictures) {
      for (const inner of picture.querySelectorAll("svg.zoom")) {
        const height = inner.getAttribute("viewBox").split(" ")[3];
        inner.setAttribute("viewBox", `${from * 1000} 0 ${size * 1000} ${height}`);
      }
      for (const tick of picture.querySelectorAll("[data-share]")) {
        const at = from + Number(tick.dataset.share) * size;
        tick.textContent = seconds(at * Number(picture.dataset.end));
      }
    }
  };
  const limit = () => {
    size = Math.min(1, Math.max(1e-6, size));
    from = Math.min(1 - size, Math.max(0, from));
  };
  const share = (picture, event) => {
    const box = picture.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width * 1000 - 150) / 850;
  };
  for (const picture of pictures) {
    picture.addEventListener("wheel", (event) => {
      event.preventDefault();
      const at = Math.min(1, Math.max(0, share(picture, event)));
      const next = Math.min(1, Math.max(1e-6, size * Math.exp(event.deltaY * 0.002)));
      from += at * (size - next);
      size = next;
      limit();
      draw();
    }, { passive: false });
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
      limit();
      draw();
    });
    for (const name of ["pointerup", "pointercancel"]) {
      picture.addEventListener(name, () => { held = null; });
    }
    picture.addEventListener("dblclick", () => { from = 0; size = 1; draw(); });
  }
})();
