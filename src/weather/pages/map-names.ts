import { isCrossed, outlinesOf, overlap } from './map-cover.ts';
import type { MapArea, MapFrame } from './map-shapes.ts';

/** Places the names of stations and of extreme alerts on the map. */

/** A layer of the map: what it shows at one size of the screen. */
export interface LayerLayout {
  /** The least distance of two stations, and the width of a disc, as fractions of the width of the map. */
  apartBy: number;
  disc: number;
  /** The full width of the map divided by its width on the screen. */
  scale: number;
  /** With more stations than this, the map of a state has no names. */
  maxNames: number;
  maxNameLength: number;
  /** The size of the abbreviation of a state, in pixels of the screen. */
  labelPx: number;
}

/** The size of a temperature on the map, and the distance of its middle from its base line, in pixels. */
export const fontPx = 13;
export const liftPx = 4.6;
/** The average width of a letter as a fraction of its height. */
const letterWidth = 0.58;

export function rounded(value: number): number {
  return Number(value.toFixed(2));
}

export interface Dot {
  x: number;
  y: number;
  colour: string;
  figure: string;
  name: string;
  title: string;
  href: string;
}

export function around({ x, y }: { x: number; y: number }, radius: number): Box {
  return [x - radius, y - radius, x + radius, y + radius];
}

export type Box = readonly [left: number, top: number, right: number, bottom: number];

/** The side of a dot or an area on which its name is. */
type Side = 'right' | 'left' | 'above' | 'below';
const sides: readonly Side[] = ['right', 'left', 'above', 'below'];

export interface Name {
  x: number;
  y: number;
  side: Side;
  text: string;
  box: Box;
}

interface Place {
  frame: MapFrame;
  /** With the scale of the frame. */
  layout: LayerLayout;
}

/**
 * Returns names next to the dots of a state, where they fit. Prefers a side where no edge of an area and no
 * border passes through the name. The dots are sorted by importance.
 */
export function namesOf(
  dots: readonly Dot[],
  {
    outlines,
    others,
    ...place
  }: Place & { outlines: ReturnType<typeof outlinesOf>; others: readonly Name[] },
): Name[] {
  const { frame, layout } = place;
  const radius = (frame.width * layout.disc) / 2;
  const names: Name[] = [];
  for (const dot of dots.slice(0, layout.maxNames)) {
    const taken = [
      ...dots.filter((one) => one !== dot).map((one) => around(one, radius)),
      ...[...others, ...names].map(({ box }) => box),
    ];
    const possible = namesNextTo(shortened(dot.name, layout), around(dot, radius), place).filter(
      ({ box }) => !taken.some((other) => overlap(box, other)),
    );
    const best = possible.find(({ box }) => !isCrossed(outlines, box)) ?? possible[0];
    if (best !== undefined) names.push(best);
  }
  return names;
}

/** Only so many extreme alerts have their name on the map. */
const maxExtreme = 3;

/** Returns the names of extreme alerts, next to their areas, where they hide the fewest dots. */
export function extremeNamesOf(areas: readonly MapArea[], dots: readonly Dot[], place: Place): Name[] {
  const radius = (place.frame.width * place.layout.disc) / 2;
  const discs = dots.map((dot) => around(dot, radius));
  const extreme = areas.flatMap(({ label, extreme }) => extreme.map((shape) => ({ label, shape })));
  const names: Name[] = [];
  for (const { label, shape } of extreme.reverse().slice(0, maxExtreme)) {
    const boxes = outlinesOf(shape).map(({ box }) => box);
    if (boxes.length === 0) continue;
    const hiddenBy = ({ box }: Name): number => discs.filter((disc) => overlap(box, disc)).length;
    const [best] = namesNextTo(label, unionOf(boxes), place)
      .filter(({ box }) => !names.some((other) => overlap(box, other.box)))
      .sort((a, b) => hiddenBy(a) - hiddenBy(b));
    if (best !== undefined) names.push(best);
  }
  return names;
}

function shortened(name: string, { maxNameLength }: LayerLayout): string {
  const [first = name] = name.split(',', 1);
  return first.length > maxNameLength ? `${first.slice(0, maxNameLength - 1)}…` : first;
}

/** Returns the name on each side of a box where it is inside the frame. */
function namesNextTo(text: string, box: Box, { frame, layout }: Place): Name[] {
  const height = fontPx * layout.scale;
  return sides
    .map((side) => nameOn(side, { text, box, height }))
    .filter((name) => isBoxInside(frame, name.box));
}

function nameOn(
  side: Side,
  { text, box: [left, top, right, bottom], height }: { text: string; box: Box; height: number },
): Name {
  const width = text.length * letterWidth * height;
  const gap = 0.2 * height;
  const x = { right: right + gap, left: left - gap, above: (left + right) / 2, below: (left + right) / 2 }[
    side
  ];
  const middle = (top + bottom) / 2;
  const y = { right: middle, left: middle, above: top - height * 0.6, below: bottom + height * 0.6 }[side];
  const start = { right: x, left: x - width, above: x - width / 2, below: x - width / 2 }[side];
  const box: Box = [start, y - height / 2, start + width, y + height / 2];
  return { x: rounded(x), y: rounded(y), side, text, box };
}

function unionOf(boxes: readonly Box[]): Box {
  const edge = (side: 0 | 1 | 2 | 3, best: (...values: number[]) => number): number =>
    best(...boxes.map((box) => box[side]));
  return [edge(0, Math.min), edge(1, Math.min), edge(2, Math.max), edge(3, Math.max)];
}

function isBoxInside({ left, top, width, height }: MapFrame, box: Box): boolean {
  return box[0] >= left && box[1] >= top && box[2] <= left + width && box[3] <= top + height;
}
