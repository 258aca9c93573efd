/** Making elements, in a few words. */

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/** Make an element with properties, `aria-…`/`data-…`/`role` attributes and children. @returns {any} */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (/^(aria-|data-|role$|scope$)/.test(key)) element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** Make an SVG element with attributes and children. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** Put other children into an element; what had the focus has it again, if its `data-key` is still among them. */
export function refill(element, ...children) {
  const key = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  element.replaceChildren(...children);
  const again = [...element.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key);
  again?.focus({ preventScroll: true });
}

/** An icon of the sprite in index.html. */
export const icon = (name) => svg("svg", { class: "icon", "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));

/** A square in a class's colour. */
export function swatch(color) {
  const square = make("span", { className: "swatch" });
  square.style.background = color;
  return square;
}

/** Show a term and its figure in a definition list. */
export const term = (name, value) => [make("dt", { textContent: name, title: name }), make("dd", { textContent: value })];

/** A share as per cent with one digit. */
export const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** Wait until calls have paused. */
export function debounced(call, milliseconds) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(call, milliseconds);
  };
}
