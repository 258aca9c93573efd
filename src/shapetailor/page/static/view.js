/**
 * Where the picture lies on the screen. `x`, `y` are the picture's coordinates at the upper left corner of the viewport
 * (0 is the picture's edge), `scale` is CSS pixels for each pixel of the picture.
 */

export const view = { scale: 1, x: 0, y: 0 };
/** Size of one viewport: the whole viewer, or half of it side by side. */
export const viewport = { width: 1, height: 1 };

const LARGEST = 64;
const MARGIN = 16;

/** @param {{width: number, height: number}} picture */
const fitting = (picture) =>
  Math.min(
    Math.max(viewport.width - 2 * MARGIN, 16) / picture.width,
    Math.max(viewport.height - 2 * MARGIN, 16) / picture.height,
    8,
  );

/** Show the whole picture. @param {{width: number, height: number}} picture */
export function fit(picture) {
  view.scale = fitting(picture);
  view.x = (picture.width - viewport.width / view.scale) / 2;
  view.y = (picture.height - viewport.height / view.scale) / 2;
}

/** Zoom by a factor so that the point of the picture under (left, top) stays there. */
export function zoomAt(factor, left, top, picture) {
  const smallest = Math.min(fitting(picture) / 2, 1);
  const scale = Math.min(Math.max(view.scale * factor, smallest), LARGEST);
  view.x += left / view.scale - left / scale;
  view.y += top / view.scale - top / scale;
  view.scale = scale;
  keepInSight(picture);
}

/** Move by CSS pixels. */
export function pan(dx, dy, picture) {
  view.x -= dx / view.scale;
  view.y -= dy / view.scale;
  keepInSight(picture);
}

/** A corner of the picture never leaves the viewport's middle. */
function keepInSight(picture) {
  const halfWidth = viewport.width / view.scale / 2;
  const halfHeight = viewport.height / view.scale / 2;
  view.x = Math.min(Math.max(view.x, -halfWidth), picture.width - halfWidth);
  view.y = Math.min(Math.max(view.y, -halfHeight), picture.height - halfHeight);
}

/** From the viewport to stroke coordinates, which count from the centre of the upper left pixel. */
export const toPicture = (left, top) => [left / view.scale + view.x - 0.5, top / view.scale + view.y - 0.5];

/** From stroke coordinates to the viewport. */
export const toViewport = (x, y) => [(x + 0.5 - view.x) * view.scale, (y + 0.5 - view.y) * view.scale];
