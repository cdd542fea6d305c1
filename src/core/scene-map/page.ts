import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import ejs from 'ejs';
import type { Finding } from '../lib/errors.ts';
import type { Scene, SceneMap } from './generated/schema-types.ts';
import { confidences, modes, sceneMapStats, segmentsOf } from './stats.ts';
import { peopleOf, timelineOf } from './timeline.ts';

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
  const ranks = new Map(stats.participants.map(({ name }, index) => [name, index]));
  const byScene = groupByScene(findings);
  const scenes = map.scenes.map((scene, index) => sceneView(scene, index, ranks, byScene.get(index) ?? []));
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
    participants: offered.map(({ name }, index) => ({ name: clean(name), index })),
    moreParticipants: stats.participants.length - offered.length,
    caveats: map.boundary_caveats.map(clean),
    findings: findings.length,
    withFindings: [...byScene.keys()]
      .sort((a, b) => a - b)
      .slice(0, maxWithFindings)
      .map((index) => ({
        number: index + 1,
        classes: scenes[index]?.classes,
        kinds: kindsOf(byScene.get(index) ?? []),
      })),
    hasMoreFindings: byScene.size > maxWithFindings,
    otherFindings: findings.filter((one) => sceneOf(one) === null).map(messageOf),
    isLong: scenes.length > maxWithLayout,
    timeline: timelineOf(map, (scene) => classesOf(scene, ranks)),
    people: peopleOf(map, offered, (scene) => classesOf(scene, ranks), clean),
    scenes,
    groups: groupsOf(scenes),
  };
}

/** With more scenes, the browser lays out only those near the window. */
const maxWithLayout = 100;
/** The head names at most this many scenes with findings. */
const maxWithFindings = 20;

/** How many scenes the browser lays out at a time. */
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
  return `main:has(#p${index}:checked) :is(.scene,.bar,.part,.shared):not(.p${index}),${link}>a{display:none}${link}>i{display:inline}`;
}

function sceneView(
  scene: Scene,
  index: number,
  ranks: ReadonlyMap<string, number>,
  findings: readonly Finding[],
) {
  const rankOf = (name: string): number => ranks.get(name) ?? 0;
  return {
    number: index + 1,
    id: clean(scene.scene_id),
    title: clean(scene.short_title),
    mode: scene.primary_mode,
    confidence: scene.boundary_confidence,
    start: scene.start_segment_id,
    end: scene.end_segment_id,
    segments: segmentsOf(scene),
    // In the order of the timeline.
    participants: [...scene.main_participants].sort((a, b) => rankOf(a) - rankOf(b)).map(clean),
    summary: clean(scene.summary),
    note: clean(scene.boundary_note),
    findings: findings.map(messageOf),
    classes: classesOf(scene, ranks),
  };
}

/** @param ranks The places of the participants. Those beyond the last filter have no class. */
function classesOf(scene: Scene, ranks: ReadonlyMap<string, number>): string {
  const people = new Set(
    scene.main_participants
      .map((name) => ranks.get(name) ?? maxParticipantFilters)
      .filter((rank) => rank < maxParticipantFilters),
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

/** Returns the kinds of findings in words: `overlap, summary too long`. */
function kindsOf(findings: readonly Finding[]): string {
  return [...new Set(findings.map(({ code }) => code.replaceAll('_', ' ')))].join(', ');
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
