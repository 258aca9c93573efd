/**
 * The picture in tiles of halved sizes.
 *
 * Own tiles instead of OpenSeadragon: strokes, label maps and the cursor share one coordinate frame and one pointer
 * handler with the picture, and what is needed of a tile viewer is this file.
 */
import { pictureUrl, request } from "./api.js";
import { view, viewport } from "./view.js";

/** Most tiles kept; one of 512 pixels takes a megabyte. */
const KEPT = 160;
const AT_ONCE = 6;
const RETRY_MS = 2000;

/** @typedef {{bitmap: ImageBitmap|null, used: number, abort: AbortController|null}} Tile */

export class Tiles {
  /**
   * @param {any} picture @param {[number, number]} range
   * @param {() => void} arrived called when a tile can be drawn
   * @param {(words: string) => void} refused called when the server says why there are none
   */
  constructor(picture, range, arrived, refused) {
    this.picture = picture;
    this.range = range;
    this.arrived = arrived;
    this.refused = refused;
    /** @type {Map<string, Tile>} */
    this.tiles = new Map();
    this.loading = 0;
    this.clock = 0;
    this.closed = false;
  }

  close() {
    this.closed = true;
    for (const tile of this.tiles.values()) {
      tile.abort?.abort();
      tile.bitmap?.close();
    }
    this.tiles.clear();
  }

  /** The coarsest level that is still as fine as the screen. @param {number} ratio device pixels per CSS pixel */
  level(ratio) {
    const wanted = Math.floor(Math.log2(1 / (view.scale * ratio)) + 0.25);
    return Math.min(Math.max(wanted, 0), this.picture.levels - 1);
  }

  /**
   * Draw what is there, coarse levels below fine ones, and fetch what is missing.
   * Returns whether the view is complete.
   */
  draw(context, ratio) {
    this.clock += 1;
    const wanted = this.level(ratio);
    const coarsest = this.picture.levels - 1;
    const absent = this.inView(wanted).filter((key) => !this.tiles.get(key)?.bitmap);
    if (absent.length) {
      for (let level = coarsest; level > wanted; level -= 1) this.paint(context, level);
      if (coarsest - wanted > 1) this.fetch(this.inView(coarsest));
    }
    this.paint(context, wanted);
    this.fetch(nearestFirst(absent));
    this.forget();
    return absent.length === 0;
  }

  /** Draw those of a level's tiles in view that are there. */
  paint(context, level) {
    const step = this.picture.tile * 2 ** level;
    context.imageSmoothingEnabled = view.scale * 2 ** level < 3;
    for (const key of this.inView(level)) {
      const tile = this.tiles.get(key);
      if (!tile) continue;
      tile.used = this.clock;
      if (!tile.bitmap) continue;
      const [, column, row] = key.split("/").map(Number);
      // whole pixels, so that no seam shows between tiles
      const place = (at, start) => Math.round((at - start) * view.scale);
      const left = place(column * step, view.x);
      const top = place(row * step, view.y);
      const right = place(Math.min((column + 1) * step, this.picture.width), view.x);
      const bottom = place(Math.min((row + 1) * step, this.picture.height), view.y);
      context.drawImage(tile.bitmap, left, top, right - left, bottom - top);
    }
  }

  /** Keys "level/column/row" of the tiles in view. */
  inView(level) {
    const step = this.picture.tile * 2 ** level;
    const between = (start, length, size) => [
      Math.max(0, Math.floor(start / step)),
      Math.min(Math.ceil(size / step) - 1, Math.floor((start + length / view.scale) / step)),
    ];
    const [left, right] = between(view.x, viewport.width, this.picture.width);
    const [top, bottom] = between(view.y, viewport.height, this.picture.height);
    const keys = [];
    for (let row = top; row <= bottom; row += 1) {
      for (let column = left; column <= right; column += 1) keys.push(`${level}/${column}/${row}`);
    }
    return keys;
  }

  fetch(keys) {
    for (const key of keys) {
      if (this.loading >= AT_ONCE) return;
      if (!this.tiles.has(key)) void this.load(key);
    }
  }

  async load(key) {
    const abort = new AbortController();
    const tile = /** @type {Tile} */ ({ bitmap: null, used: this.clock, abort });
    this.tiles.set(key, tile);
    this.loading += 1;
    const [level, column, row] = key.split("/");
    const rest = `/tiles/${level}/${column}_${row}.jpg?low=${this.range[0]}&high=${this.range[1]}&v=${this.picture.version}`;
    try {
      const response = await request(pictureUrl(this.picture.name, rest), { signal: abort.signal });
      tile.bitmap = await createImageBitmap(await response.blob());
      if (this.closed) tile.bitmap.close();
    } catch (error) {
      if (error.status && !this.closed) this.refused(error.message);
      setTimeout(() => this.again(key), abort.signal.aborted ? 0 : RETRY_MS);
    }
    tile.abort = null;
    this.loading -= 1;
    if (!this.closed) this.arrived();
  }

  /** Let a tile that did not come be fetched once more. */
  again(key) {
    this.tiles.delete(key);
    if (!this.closed) this.arrived();
  }

  /** Stop fetching what has left the view; close the tiles that were not drawn for the longest time. */
  forget() {
    for (const tile of this.tiles.values()) {
      if (tile.used < this.clock) tile.abort?.abort();
    }
    const excess = this.tiles.size - KEPT;
    if (excess <= 0) return;
    const oldest = [...this.tiles].filter(([, tile]) => tile.bitmap).sort((a, b) => a[1].used - b[1].used);
    for (const [key, tile] of oldest.slice(0, excess)) {
      tile.bitmap?.close();
      this.tiles.delete(key);
    }
  }
}

/** Tiles in the middle of the view come first. */
function nearestFirst(keys) {
  const places = keys.map((key) => ({ key, at: key.split("/").map(Number) }));
  const mean = (axis) => places.reduce((sum, { at }) => sum + at[axis], 0) / (places.length || 1);
  const [x, y] = [mean(1), mean(2)];
  const distance = ({ at }) => Math.hypot(at[1] - x, at[2] - y);
  return places.sort((a, b) => distance(a) - distance(b)).map(({ key }) => key);
}
