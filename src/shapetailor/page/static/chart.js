/** A curve in a figure: its shape, and in the caption the last figure. */
import { svg } from "./dom.js";

const [WIDTH, HEIGHT] = [260, 72];
/** Where there are more points, the line says enough. */
const MOST_DOTS = 30;

/**
 * Draw points (x, y) into a figure.
 * @param {HTMLElement} figure @param {number[][]} points @param {string[]} caption
 * @param {number[]} heights what the figure's height spans beside the points
 */
export function drawCurve(figure, points, caption, heights = []) {
  figure.hidden = points.length === 0;
  if (figure.hidden) return;
  const [xs, ys] = [points.map(([x]) => x), [...points.map(([, y]) => y), ...heights]];
  const place = (values, size) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return (value) => (high > low ? ((value - low) / (high - low)) * size : size / 2);
  };
  const [across, up] = [place(xs, WIDTH), place(ys, HEIGHT - 8)];
  const path = points.map(([x, y]) => `${across(x).toFixed(1)},${(HEIGHT - 4 - up(y)).toFixed(1)}`);
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": caption.join(", ") },
    svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT - 4, y2: HEIGHT - 4 }),
    ...(heights.length ? [svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: 4, y2: 4 })] : []),
    svg("polyline", { class: "curve", points: path.join(" ") }),
    ...(path.length <= MOST_DOTS ? [svg("path", { class: "dots", d: path.map((point) => `M${point}h0`).join("") })] : []),
  );
  figure.querySelector("svg")?.remove();
  figure.prepend(drawing);
  const words = figure.querySelector("figcaption");
  words.replaceChildren(...caption.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
}
