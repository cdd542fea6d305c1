import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import ejs from 'ejs';
import type { Finding } from '../lib/errors.ts';
import type { Scene, SceneMap } from './generated/schema-types.ts';
import { confidences, modes, sceneMapStats, segmentsOf } from './stats.ts';

interface PageOptions {
  /** Findings from a check. They are shown at the scenes that they are about, and the head links to them. */
  findings?: readonly Finding[];
  /** The relative URL of the document that the page is made from. */
  documentHref?: string;
  /** The relative URL of the page that lists the bundle. */
  bundleHref?: string;
}

/** How many participants to offer as filters. Each of them needs a style rule. */
const maxParticipantFilters = 100;

/**
 * Renders a valid scene map as an HTML page that needs no other files. The page has no scripts, so nothing in
 * the document can ever run. Filters are made of form controls and style rules. The output is always the
 * same.
 */
export function renderSceneMapPage(map: SceneMap, options: PageOptions = {}): string {
  const view = pageView(map, options);
  return template()({ ...view, styleHash: createHash('sha256').update(view.style).digest('base64') });
}

let compiled: ejs.TemplateFunction | undefined;
let baseStyle: string | undefined;

function template(): ejs.TemplateFunction {
  compiled ??= ejs.compile(read('pages/scene-map.ejs'), {
    strict: true,
    localsName: 'page',
    rmWhitespace: true,
  });
  return compiled;
}

/** @param name The path of the file below `templates`. */
function read(name: string): string {
  return readFileSync(new URL(`../../../templates/${name}`, import.meta.url), 'utf8');
}

function pageView(map: SceneMap, { findings = [], documentHref, bundleHref }: PageOptions): PageView {
  const stats = sceneMapStats(map);
  const offered = stats.participants.slice(0, maxParticipantFilters);
  const numbers = new Map(offered.map(({ name }, index) => [name, index]));
  const byScene = groupByScene(findings);
  const scenes = map.scenes.map((scene, index) => sceneView(scene, index, numbers, byScene.get(index) ?? []));
  baseStyle ??= ['styles/tokens.css', 'styles/base.css', 'pages/scene-map.css'].map(read).join('');
  return {
    style: baseStyle + offered.map((_, index) => participantRule(index)).join(''),
    documentHref: documentHref ?? null,
    bundleHref: bundleHref ?? null,
    clean,
    scope: map.session_scope,
    stats,
    modes,
    confidences,
    participants: offered.map(({ name, scenes }, index) => ({ name: clean(name), scenes, index })),
    moreParticipants: stats.participants.length - offered.length,
    caveats: map.boundary_caveats.map(clean),
    findings: findings.length,
    withFindings: [...byScene.keys()]
      .sort((a, b) => a - b)
      .slice(0, maxWithFindings)
      .map((index) => ({ number: index + 1, classes: scenes[index]?.classes })),
    hasMoreFindings: byScene.size > maxWithFindings,
    otherFindings: findings.filter((one) => sceneOf(one) === null).map(messageOf),
    isLong: scenes.length > maxWithLayout,
    timeline: timelineOf(map, (scene) => classesOf(scene, numbers)),
    people: peopleOf(map, offered, (scene) => classesOf(scene, numbers)),
    scenes,
    groups: groupsOf(scenes),
  };
}

/** With more scenes, the browser lays out only those near the window. */
const maxWithLayout = 100;
/** The head names at most this many scenes with findings. */
const maxWithFindings = 20;

/** How many scenes the browser lays out at a time. This is even, so that two columns have the same length. */
const groupSize = 16;

function groupsOf(scenes: readonly object[]): object[][] {
  return Array.from({ length: Math.ceil(scenes.length / groupSize) }, (_, index) =>
    scenes.slice(index * groupSize, (index + 1) * groupSize),
  );
}

interface PageView extends Record<string, unknown> {
  style: string;
}

function participantRule(index: number): string {
  const link = `body:has(#p${index}:checked) .to:not(.p${index})`;
  return `main:has(#p${index}:checked) :is(.scene,.bar,.part):not(.p${index}),${link}>a{display:none}${link}>i{display:inline}`;
}

function sceneView(
  scene: Scene,
  index: number,
  numbers: ReadonlyMap<string, number>,
  findings: readonly Finding[],
) {
  return {
    number: index + 1,
    id: clean(scene.scene_id),
    title: clean(scene.short_title),
    mode: scene.primary_mode,
    confidence: scene.boundary_confidence,
    start: scene.start_segment_id,
    end: scene.end_segment_id,
    segments: segmentsOf(scene),
    participants: scene.main_participants.map(clean),
    summary: clean(scene.summary),
    note: clean(scene.boundary_note),
    findings: findings.map(messageOf),
    classes: classesOf(scene, numbers),
  };
}

function classesOf(scene: Scene, numbers: ReadonlyMap<string, number>): string {
  const people = new Set(
    scene.main_participants.map((name) => numbers.get(name)).filter((number) => number !== undefined),
  );
  return [scene.primary_mode.toLowerCase(), ...[...people].map((number) => `p${number}`)].join(' ');
}

function groupByScene(findings: readonly Finding[]): Map<number, Finding[]> {
  const groups = new Map<number, Finding[]>();
  for (const one of findings) {
    const scene = sceneOf(one);
    if (scene !== null && groups.get(scene)?.push(one) === undefined) groups.set(scene, [one]);
  }
  return groups;
}

function sceneOf({ pointer }: Finding): number | null {
  const match = /^\/scenes\/(\d+)(?:\/|$)/.exec(pointer ?? '');
  return match === null ? null : Number(match[1]);
}

/**
 * Returns the message of a finding, without the id of a scene that only repeats its number: `Scene 5` for
 * `Scene 5 ("S5")`.
 */
function messageOf(one: Finding): string {
  return clean(one.message).replaceAll(
    /(scene (\d+)) \("S(\d+)"\)/gi,
    (whole, name: string, number: string, id: string) => (number === id ? name : whole),
  );
}

/**
 * Removes control characters, and lone surrogates, which cannot be encoded in UTF-8. Markup is escaped by the
 * template.
 */
function clean(text: string): string {
  return text.toWellFormed().replace(/(?![\n\t])\p{Cc}/gu, '\uFFFD');
}

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
  middle: number;
  last: number;
  bars: readonly Bar[];
  /** Gaps between scenes, and segments that are in two scenes. */
  bands: readonly Band[];
  /** Lines that lead from each scene to the next one. */
  steps: readonly Step[];
}

interface Band {
  kind: 'gap' | 'overlap';
  x: string;
  width: string;
  title: string;
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
function timelineOf(map: SceneMap, classesOf: (scene: Scene) => string): Timeline {
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
    return [{ kind, x: left.toFixed(3), width: width.toFixed(3), title }];
  });
  const steps = map.scenes.length > maxConnected ? [] : stepsOf(bars);
  return { laneHeight, first, middle: Math.round((first + last) / 2), last, bars, bands, steps };
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
function peopleOf(
  map: SceneMap,
  participants: readonly { name: string; scenes: number }[],
  classesOf: (scene: Scene) => string,
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
