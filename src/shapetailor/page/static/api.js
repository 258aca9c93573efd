/** Requests to the server. Every failure becomes an Error whose message is a sentence for the person. */

export const STARTED_ANEW = "The server was started anew. Open the link it printed.";
const UNREACHABLE = "The server does not answer. Is it still running?";

/** Send a request; throw the server's own words when it refuses. @param {string} path @param {RequestInit} [options] */
export async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    throw new Error(UNREACHABLE);
  }
  if (response.ok) return response;
  if (response.status === 403) throw new Error(STARTED_ANEW);
  const words = await response.json().then((body) => body.error, () => null);
  const error = new Error(words ?? `The server refused (${response.status} ${response.statusText}).`);
  throw Object.assign(error, { status: response.status });
}

const json = (path, options) => request(path, options).then((response) => response.json());
const sending = (method, body) => ({
  method,
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});

/** The address of something of one picture. @param {string} name @param {string} [rest] */
export const pictureUrl = (name, rest = "") => `/api/pictures/${encodeURIComponent(name)}${rest}`;

export const getProject = () => json("/api/project");
export const putClasses = (classes) => json("/api/classes", sending("PUT", { classes }));
export const getPicture = (name) => json(pictureUrl(name));
export const getTable = (name, source) => json(pictureUrl(name, `/table?source=${source}`));
export const getMetrics = (name, source) => json(pictureUrl(name, `/metrics?source=${source}`));
export const startJob = (job) => json("/api/jobs", sending("POST", job));
export const cancelJob = () => request("/api/jobs", { method: "DELETE" });

/** @param {File} file */
export const upload = (file) =>
  json(`/api/pictures?file=${encodeURIComponent(file.name)}`, { method: "POST", body: file });

/** Bytes of a label map or an uncertainty, and how many pixels of the picture one of its pixels stands for. */
export async function getMap(name, kind, source) {
  const response = await request(pictureUrl(name, `/${kind}.png?source=${source}`));
  return { scale: Number(response.headers.get("X-Scale") ?? 1), bytes: await response.arrayBuffer() };
}

/** A file to take along, and its name. */
export async function getFile(path) {
  const response = await request(path);
  const [, coded, plain] = /filename\*=utf-8''([^;]+)|filename="([^"]*)"/.exec(response.headers.get("Content-Disposition")) ?? [];
  return { name: coded ? decodeURIComponent(coded) : (plain ?? ""), content: await response.blob() };
}
