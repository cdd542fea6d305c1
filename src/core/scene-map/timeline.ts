import type { Scene, SceneMap } from './generated/schema-types.ts';
import { modes } from './stats.ts';

/** The minimum width of a bar in percent, so that it is visible. */
const thinnest = 0.05;
/** Pixels. */
const laneHeight = 30;
const barHeights = { High: 24, Medium: 15, Low: 7 } as const;
/** The width in percent that a number needs per digit count, on a wide screen and on a phone. */
const roomForDigit = { wide: 0.75, middling: 1.5, phone: 3.2 };

/** The timeline of a map as bars. Horizontal values are in percent of the width, vertical ones in pixels. */
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
  /** null if the bar is too narrow for its number. */
  label: Label | null;
}

interface Label {
  x: string;
  y: number;
  /** `above` the bar. `narrow` and `middling` are hidden on narrower screens. */
  classes: string;
}

/**
 * Computes the bars to scale along the scope. The lane shows the mode, the height the confidence. Bars are
 * clipped to the scope, so that a single distant id does not compress all others. Pure.
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
