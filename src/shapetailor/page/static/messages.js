/** What the page says: short notes that go away, and the line below the picture. */

const SHOWN_MS = { note: 4000, error: 9000 };
const toasts = document.getElementById("toasts");
const line = document.getElementById("status-text");

/** Show a note in words. @param {string} text @param {"note"|"error"} [kind] */
export function say(text, kind = "note") {
  for (const old of toasts.children) {
    if (old.firstElementChild?.textContent === text) old.remove();
  }
  const toast = document.createElement("div");
  toast.className = `toast ${kind}`;
  const words = document.createElement("p");
  words.textContent = text;
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "×";
  close.setAttribute("aria-label", "Close this message");
  close.onclick = () => toast.remove();
  toast.append(words, close);
  toasts.append(toast);
  while (toasts.children.length > 3) toasts.firstElementChild.remove();
  setTimeout(() => toast.remove(), SHOWN_MS[kind]);
}

let clearing = 0;

/** Put a sentence into the status line; `passing` ones go away. @param {string} text */
export function status(text, passing = false) {
  clearTimeout(clearing);
  if (passing) clearing = setTimeout(() => status(""), SHOWN_MS.note);
  if (line.textContent !== text) line.textContent = text;
}

/** Do something that may fail, and say why if it does. @template T @param {Promise<T>} promise */
export async function attempt(promise) {
  try {
    return await promise;
  } catch (error) {
    say(error instanceof Error ? error.message : String(error), "error");
    return null;
  }
}
