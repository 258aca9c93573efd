/** The list of classes: choose, add, rename, recolour, remove. */
import { putClasses } from "./api.js";
import { byId, icon, make, refill, swatch } from "./dom.js";
import { changed, classes, classOf, on, state } from "./state.js";

const list = byId("class-list");
const dialog = byId("class-dialog");
/** Values are 1 to 254. */
const MOST_CLASSES = 254;
/** The class in the dialog; its value is null while it is new. @type {any} */
let edited = null;

/** Choose the class to draw with; an eraser becomes a brush. @param {number} value */
export function chooseClass(value) {
  if (!classOf(value)) return;
  state.classValue = value;
  if (state.tool === "eraser" || state.tool === "pan") state.tool = "brush";
  changed("classes");
  changed("tool");
}

/** Choose by number key: the place in the list. @param {number} place from 0 */
export function chooseNumber(place) {
  const each = classes()[place];
  if (each) chooseClass(each.value);
}

function show() {
  if (classes().length && !classOf(state.classValue)) state.classValue = classes()[0].value;
  refill(list, ...classes().map(row));
  const few = classes().length < 2;
  byId("class-hint").textContent = few ? "Two classes are needed. Add one for each texture." : "";
  byId("class-hint").hidden = !few;
}

function row(each, place) {
  const chosen = each.value === state.classValue;
  const choose = make(
    "button",
    { type: "button", className: "class", title: each.name, "aria-pressed": String(chosen), "data-value": each.value, "data-key": `choose ${each.value}`, onclick: () => chooseClass(each.value) },
    swatch(each.color),
    make("span", { className: "name", textContent: each.name }),
  );
  if (place < 9) choose.append(make("kbd", { textContent: String(place + 1), "aria-label": `key ${place + 1}` }));
  const edit = make(
    "button",
    { type: "button", className: "bare", title: `Edit ${each.name}`, "aria-label": `Edit ${each.name}`, "data-key": `edit ${each.value}`, onclick: () => openDialog(each) },
    icon("edit"),
  );
  return make("li", {}, choose, edit);
}

export function addClass() {
  openDialog({ value: null, name: "", color: "", ignored: false });
}

function openDialog(each) {
  edited = each;
  const isNew = each.value === null;
  byId("class-dialog-title").textContent = isNew ? "New class" : "Edit class";
  byId("class-name").value = each.name;
  byId("class-color").value = each.color || freeColour();
  byId("class-ignored").checked = Boolean(each.ignored);
  byId("class-remove").hidden = isNew;
  byId("class-error").hidden = true;
  dialog.showModal();
  byId("class-name").select();
}

/** Okabe and Ito's colours, which colour-blind people can tell apart, in the order the server uses too. */
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#56b4e9"];

const freeColour = () => COLOURS.find((color) => !classes().some((each) => each.color === color)) ?? "#888888";

async function keep() {
  const name = byId("class-name").value.trim();
  if (!name) return refuse("Give the class a name.");
  const value = edited.value ?? freeValue();
  if (value > MOST_CLASSES) return refuse(`There are ${MOST_CLASSES} classes, which is the most.`);
  const fresh = { value, name, color: byId("class-color").value };
  if (byId("class-ignored").checked) fresh.ignored = true;
  const others = classes().filter((each) => each.value !== value);
  if (await store([...others, fresh])) chooseClass(value);
  return undefined;
}

async function remove() {
  if (await store(classes().filter((each) => each.value !== edited.value))) byId("add-class").focus();
}

function freeValue() {
  const taken = new Set(classes().map((each) => each.value));
  let value = 1;
  while (taken.has(value)) value += 1;
  return value;
}

function refuse(words) {
  byId("class-error").textContent = words;
  byId("class-error").hidden = false;
}

/** Send the whole list; what the server refuses is said in the dialog, which stays. */
async function store(next) {
  try {
    state.project = await putClasses(next.sort((a, b) => a.value - b.value));
  } catch (error) {
    refuse(error.message);
    return false;
  }
  dialog.close();
  changed("project");
  return true;
}

export function startClasses() {
  on(["project", "classes"], show);
  byId("add-class").onclick = addClass;
  byId("class-cancel").onclick = () => dialog.close();
  byId("class-remove").onclick = () => void remove();
  dialog.onclose = () => {
    const { activeElement } = document;
    const isLost = activeElement === document.body || dialog.contains(activeElement); // news have made the list anew
    if (isLost) list.querySelector(`[data-key="edit ${edited.value}"]`)?.focus();
  };
  dialog.querySelector("form").onsubmit = (event) => {
    event.preventDefault();
    void keep();
  };
}
