import { readFileSync } from 'node:fs';
import { packagedFile } from '../api/packaged-file.ts';
import { mapSize } from './projection.ts';

/** A state as the map draws it. */
export interface StateOutline {
  /** Two letters. */
  code: string;
  name: string;
  /** Left, top, right, bottom, in pixels of the map. */
  box: readonly [number, number, number, number];
  /** Data of an SVG path: for the whole country, and for the state alone. */
  coarse: string;
  fine: string;
}

let known: readonly StateOutline[] | undefined;

/** The states that the map has, by their names. */
export function states(): readonly StateOutline[] {
  known ??= JSON.parse(
    readFileSync(packagedFile('templates/weather-pages/states.json'), 'utf8'),
  ) as readonly StateOutline[];
  return known;
}

/** What of the map is shown. */
export interface MapFrame {
  left: number;
  top: number;
  width: number;
  height: number;
}

export const wholeCountry: MapFrame = { left: 0, top: 0, ...mapSize };

/** The least frame of the proportions of the whole map around a state, with some room. Pure. */
export function frameOf({ box: [left, top, right, bottom] }: Pick<StateOutline, 'box'>): MapFrame {
  const room = 1.15;
  const ratio = mapSize.width / mapSize.height;
  const width = Math.max((right - left) * room, (bottom - top) * room * ratio, 12);
  const height = width / ratio;
  const rounded = (value: number): number => Number(value.toFixed(1));
  return {
    left: rounded((left + right - width) / 2),
    top: rounded((top + bottom - height) / 2),
    width: rounded(width),
    height: rounded(height),
  };
}

export function isWithin({ left, top, width, height }: MapFrame, [x, y]: readonly [number, number]): boolean {
  return x >= left && x <= left + width && y >= top && y <= top + height;
}

/** Whether two boxes have a point in common. Pure. */
export function overlaps(frame: MapFrame, [left, top, right, bottom]: StateOutline['box']): boolean {
  return (
    left <= frame.left + frame.width &&
    right >= frame.left &&
    top <= frame.top + frame.height &&
    bottom >= frame.top
  );
}
