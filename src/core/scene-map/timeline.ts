import type { Scene, SceneMap } from './generated/schema-types.ts';
import { modes } from './stats.ts';

/** The minimum width of a bar, in percent. A narrower one would be invisible. */
const minBarWidth = 0.05;
/** The height of a lane, in pixels. */
const laneHeight = 30;
const barHeight = 24;
/** The width that a number needs for each digit, in percent. It depends on the size of the screen. */
const roomForDigit = { wide: 1, middling: 1.5, phone: 3.2 };

/**
 * The bars of a timeline. Horizontal positions are percentages of the width; vertical positions are in
 * pixels.
 */
interface Timeline {
  laneHeight: number;
  first: number;
  last: number;
  bars: readonly Bar[];
  /** Gaps between scenes, and segments that are in two scenes. */
  bands: readonly Band[];
  /** Lines that lead from each scene to the next one. */
  steps: readonly Step[];
  marks: readonly Mark[];
}

interface Band {
  kind: 'gap' | 'overlap';
  /** For an overlap: the classes that both scenes share. Hiding one of the scenes hides the overlap. */
  classes: string;
  x: string;
  width: string;
  title: string;
}

/** A number of the axis. */
interface Mark {
  x: string;
  text: string;
  classes: string;
}

interface Step {
  x1: string;
  x2: string;
  y1: number;
  y2: number;
}

interface Bar {
  number: number;
  x: string;
  y: number;
  width: string;
  height: number;
  classes: string;
  /** null if there is no room in the bar for its number. */
  label: Label | null;
}

interface Label {
  x: string;
  y: number;
  /** On small screens, labels with `narrow` or `middling` are hidden. */
  classes: string;
}

/**
 * Lays out the bars to scale along the scope. A bar's lane shows the mode, and its style shows the
 * confidence. Anything outside the scope is cut off, so that one distant id does not squeeze all the other
 * bars.
 */
export function timelineOf(map: SceneMap, classesOf: (scene: Scene) => string): Timeline {
  const { first_segment_id: from, last_segment_id: to } = map.session_scope;
  const first = Math.min(from, to);
  const last = Math.max(from, to);
  const scale = 100 / (last - first + 1);
  const bars = map.scenes.map((scene, index): Bar => {
    const left = Math.min(clamp((scene.start_segment_id - first) * scale), 100 - minBarWidth);
    const right = clamp((scene.end_segment_id - first + 1) * scale);
    const width = Math.max(right - left, minBarWidth);
    const y = modes.indexOf(scene.primary_mode) * laneHeight + 3;
    const classes = `${classesOf(scene)} ${scene.boundary_confidence.toLowerCase()}`;
    return {
      number: index + 1,
      y,
      height: barHeight,
      classes,
      x: left.toFixed(3),
      width: width.toFixed(3),
      label: labelOf(index + 1, { left, width, y }),
    };
  });
  const bands = map.scenes.slice(1).flatMap((scene, index): Band[] => {
    const end = map.scenes[index]?.end_segment_id ?? 0;
    const start = scene.start_segment_id;
    if (start === end + 1) return [];
    const [from, to] = start > end ? [end + 1, start - 1] : [start, end];
    const left = clamp((from - first) * scale);
    const width = clamp((to - first + 1) * scale) - left;
    if (width <= 0) return [];
    const range = from === to ? `segment ${from}` : `segments ${from} to ${to}`;
    const kind = start > end ? 'gap' : 'overlap';
    const title = `${kind === 'gap' ? 'Gap' : 'Overlap'}: ${range}`;
    const classes =
      kind === 'gap' ? '' : sharedClasses(classesOf(map.scenes[index] ?? scene), classesOf(scene));
    return [{ kind, classes, x: left.toFixed(3), width: width.toFixed(3), title }];
  });
  const steps = map.scenes.length > maxConnected ? [] : stepsOf(bars);
  return { laneHeight, first, last, bars, bands, steps, marks: marksOf(first, last) };
}

/** Returns the modes of two scenes, and the participants that both have. */
function sharedClasses(before: string, after: string): string {
  const others = before.split(' ');
  const both = after.split(' ').filter((name, index) => index === 0 || others.includes(name));
  return ['shared', others[0], ...both].join(' ');
}

/** With longer ids, there is only room for the first and the last one. */
const maxMarkDigits = 6;

/** Returns the numbers of the axis: the first and the last segment, and about six round ones between them. */
function marksOf(first: number, last: number): Mark[] {
  const ends = [
    { x: '0', text: String(first), classes: 'first' },
    { x: '100', text: String(last), classes: 'last' },
  ];
  const span = last - first + 1;
  if (Math.max(...ends.map(({ text }) => text.length)) > maxMarkDigits) return ends;
  const unit = 10 ** Math.max(Math.floor(Math.log10(span / 6)), 0);
  const step = ([1, 2, 5].find((one) => one * unit * 6 >= span) ?? 10) * unit;
  const start = Math.ceil(first / step) * step;
  const between = Array.from({ length: Math.ceil((last - start + 1) / step) }, (_, index) => {
    const id = start + index * step;
    const x = ((id - first + 0.5) * 100) / span;
    return { at: x, x: x.toFixed(3), text: String(id), classes: (id / step) % 2 === 0 ? '' : 'narrow' };
  });
  // Close to an end, there is no room.
  return [...ends, ...between.filter(({ at }) => at > 7 && at < 93)];
}

/** With more scenes, lines between them and rows of participants would only be noise. */
const maxConnected = 60;

/** Returns a line from the end of each bar to the start of the next one, across the gap and the lanes. */
function stepsOf(bars: readonly Bar[]): Step[] {
  return bars.slice(1).flatMap((bar, index) => {
    const before = bars[index] ?? bar;
    const from = before.y + barHeight / 2;
    const to = bar.y + barHeight / 2;
    const end = (Number(before.x) + Number(before.width)).toFixed(3);
    return [
      ...(Number(end) < Number(bar.x) ? [{ x1: end, x2: bar.x, y1: from, y2: from }] : []),
      ...(from === to ? [] : [{ x1: bar.x, x2: bar.x, y1: from, y2: to }]),
    ];
  });
}

const maxRows = 8;
const rowHeight = 18;

/**
 * Lays out a row for each participant, the most frequent ones first, with a part for each scene. The parts
 * have the positions of the bars.
 */
export function peopleOf(
  map: SceneMap,
  participants: readonly { name: string; scenes: number }[],
  classesOf: (scene: Scene) => string,
  clean: (text: string) => string,
): object | null {
  const shown = participants.slice(0, maxRows);
  if (map.scenes.length > maxConnected || shown.length === 0) return null;
  const { bars } = timelineOf(map, classesOf);
  const rows = shown.map(({ name }, row) => ({
    name: clean(name),
    y: row * rowHeight,
    parts: bars.filter((_, index) => map.scenes[index]?.main_participants.includes(name)),
  }));
  return { rows, rowHeight, height: rows.length * rowHeight };
}

function labelOf(
  number: number,
  { left, width, y: top }: { left: number; width: number; y: number },
): Label | null {
  const room = width / String(number).length;
  if (room < roomForDigit.wide) return null;
  const classes = room < roomForDigit.middling ? 'narrow' : room < roomForDigit.phone ? 'middling' : '';
  // The baseline. In a font size of 11 pixels, digits are 8 pixels high.
  const y = top + (barHeight + 8) / 2;
  return { x: (left + width / 2).toFixed(3), y, classes };
}

function clamp(x: number): number {
  return Math.min(Math.max(x, 0), 100);
}
