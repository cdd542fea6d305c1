import type { Scene, SceneMap } from './generated/schema-types.ts';
import { modes } from './stats.ts';

/** Percent of the width; what is thinner is hardly seen. */
const thinnest = 0.05;
/** Pixels. */
const laneHeight = 30;
const barHeights = { High: 24, Medium: 15, Low: 7 } as const;
/** Percent of the width that a number of so many digits needs on a wide screen, and on a phone. */
const roomForDigit = { wide: 0.75, middling: 1.5, phone: 3.2 };

/** A picture of a map: bars along its segments, across in percent of the width, down in pixels. */
export interface Timeline {
  laneHeight: number;
  first: number;
  middle: number;
  last: number;
  bars: readonly Bar[];
}

interface Bar {
  number: number;
  x: string;
  y: number;
  width: string;
  height: number;
  classes: string;
  /** Null where the bar is too narrow for its number. */
  label: Label | null;
}

interface Label {
  x: string;
  y: number;
  /** `above` the bar; `narrow` and `middling` give way on narrower screens. */
  classes: string;
}

/**
 * Bars to scale along the scope; the lane shows the mode and the height the confidence. What lies outside the
 * scope is cut off at its edge, so that one far id does not press all others into a line. Pure.
 */
export function timelineOf(map: SceneMap, classesOf: (scene: Scene) => string): Timeline {
  const { first_segment_id: from, last_segment_id: to } = map.session_scope;
  const first = Math.min(from, to);
  const last = Math.max(from, to);
  const scale = 100 / (last - first + 1);
  const bars = map.scenes.map((scene, index): Bar => {
    const left = Math.min(clamp((scene.start_segment_id - first) * scale), 100 - thinnest);
    const right = clamp((scene.end_segment_id - first + 1) * scale);
    const width = Math.max(right - left, thinnest);
    const height = barHeights[scene.boundary_confidence];
    const bottom = (modes.indexOf(scene.primary_mode) + 1) * laneHeight - 3;
    const bar = { number: index + 1, y: bottom - height, height, classes: classesOf(scene) };
    return {
      ...{ ...bar, x: left.toFixed(3), width: width.toFixed(3) },
      label: labelOf(index + 1, { left, width, bottom, height }),
    };
  });
  return { laneHeight, first, middle: Math.round((first + last) / 2), last, bars };
}

function labelOf(
  number: number,
  { left, width, bottom, height }: { left: number; width: number; bottom: number; height: number },
): Label | null {
  const room = width / String(number).length;
  if (room < roomForDigit.wide) return null;
  const isAbove = height < barHeights.Medium;
  const classes = [
    ...(isAbove ? ['above'] : []),
    ...(room < roomForDigit.middling ? ['narrow'] : room < roomForDigit.phone ? ['middling'] : []),
  ];
  // The baseline: digits of 11 pixels are 8 tall.
  const y = isAbove ? bottom - height - 3 : bottom - (height - 8) / 2;
  return { x: (left + width / 2).toFixed(3), y, classes: classes.join(' ') };
}

function clamp(x: number): number {
  return Math.min(Math.max(x, 0), 100);
}
