import { quoted } from '../lib/text.ts';
import type { Scene, SceneMap } from './generated/schema-types.ts';
import { maxFindings, type PlacelessFinding } from './report.ts';
import { countSentences, isWithinSentenceLimit } from './sentences.ts';
import type { Transcript } from './transcript.ts';

/**
 * Checks the rules that a schema cannot express: order, gaps, overlaps, whether the whole scope is covered,
 * whether boundaries exist, ids and summaries. If there is a transcript, the next segment is the one with the
 * next id in it. Otherwise, it is the next integer.
 */
export function contentFindings(map: SceneMap, transcript?: Transcript): PlacelessFinding[] {
  const found: PlacelessFinding[] = [];
  checkScope(map, found);
  const inOrder = checkSpans(map, found);
  checkCover(map, transcript, found);
  checkIds(map, inOrder, found);
  checkTexts(map, found);
  if (transcript !== undefined) checkBoundariesExist(map, transcript, found);
  // If there are too many, return one more than the limit, so that the caller knows.
  return found.length > maxFindings ? found.slice(0, maxFindings + 1) : found;
}

function checkScope({ session_scope: scope }: SceneMap, found: PlacelessFinding[]): void {
  const { first_segment_id: first, last_segment_id: last } = scope;
  if (!Number.isSafeInteger(first)) reportUnsafe(first, '/session_scope/first_segment_id', found);
  if (!Number.isSafeInteger(last)) reportUnsafe(last, '/session_scope/last_segment_id', found);
  if (first <= last) return;
  const message = `The scope begins at segment ${first}, after its end at ${last}; first_segment_id must not be larger than last_segment_id.`;
  found.push({ code: 'scope_reversed', message, pointer: '/session_scope/first_segment_id' });
}

function reportUnsafe(id: number, pointer: string, found: PlacelessFinding[]): void {
  const message = `${id} is not a safe integer; segment ids must be between -9007199254740991 and 9007199254740991.`;
  found.push({ code: 'unsafe_integer', message, pointer });
}

/** Checks each scene on its own, and against the one before it. Reports whether all of them are in order. */
function checkSpans({ scenes }: SceneMap, found: PlacelessFinding[]): boolean {
  let inOrder = true;
  let before: Scene | undefined;
  for (let index = 0; index < scenes.length; index++) {
    const scene = scenes[index] as Scene;
    const { start_segment_id: start, end_segment_id: end } = scene;
    if (!Number.isSafeInteger(start)) reportUnsafe(start, startOf(index), found);
    if (!Number.isSafeInteger(end)) reportUnsafe(end, endOf(index), found);
    if (start > end) {
      const message = `${sentenceStart(scene, index)} starts at segment ${start}, after its end at ${end}; the start must not be larger than the end.`;
      found.push({ code: 'scene_reversed', message, pointer: startOf(index) });
    }
    if (before !== undefined && start < before.start_segment_id) {
      inOrder = false;
      const message = `${sentenceStart(scene, index)} starts at segment ${start}, before ${named(before, index - 1)}, which starts at ${before.start_segment_id}; put the scenes in order.`;
      found.push({ code: 'out_of_order', message, pointer: startOf(index) });
    }
    before = scene;
  }
  return inOrder;
}

/**
 * Checks whether the scenes, sorted by where they start, cover the scope from the first segment to the last.
 */
function checkCover(map: SceneMap, transcript: Transcript | undefined, found: PlacelessFinding[]): void {
  const { first_segment_id: first, last_segment_id: last } = map.session_scope;
  let reached = first - 1;
  let holder: Scene | undefined;
  let holderIndex = -1;
  for (const index of byStart(map.scenes)) {
    const scene = map.scenes[index] as Scene;
    const { start_segment_id: start, end_segment_id: end } = scene;
    if (start < first)
      reportOutside(
        scene,
        index,
        startOf(index),
        `starts at segment ${start}, before the scope, which begins at ${first}`,
        found,
      );
    if (end > last)
      reportOutside(
        scene,
        index,
        endOf(index),
        `ends at segment ${end}, after the scope, which ends at ${last}`,
        found,
      );
    if (holder !== undefined && start <= reached) {
      const to = Math.min(end, reached);
      const shared = idsBetween(start, to, transcript) ?? { text: range(start, to), one: start === to };
      const message = `${sentenceStart(scene, index)} overlaps ${named(holder, holderIndex)}: ${shared.text} ${shared.one ? 'is' : 'are'} in both.`;
      found.push({ code: 'overlap', message, pointer: startOf(index) });
    } else if (start > reached + 1) {
      const missing = idsBetween(Math.max(reached + 1, first), Math.min(start - 1, last), transcript);
      const between =
        holder === undefined
          ? `before ${named(scene, index)}, the first`
          : `between ${named(holder, holderIndex)} and ${named(scene, index)}`;
      if (missing !== null)
        found.push({ code: 'gap', message: gapMessage(missing, between), pointer: startOf(index) });
    }
    if (holder === undefined || end > reached) {
      reached = Math.max(end, first - 1);
      holder = scene;
      holderIndex = index;
    }
  }
  const rest = idsBetween(Math.max(reached + 1, first), last, transcript);
  if (rest === null) return;
  const pointer = holder === undefined ? '/scenes' : endOf(holderIndex);
  const after =
    holder === undefined ? 'as no scene has a valid span' : `after ${named(holder, holderIndex)}, the last`;
  found.push({ code: 'gap', message: gapMessage(rest, after), pointer });
}

/**
 * Returns the indexes of the scenes that have a valid span, sorted by where they start. In most maps, they
 * already are.
 */
function byStart(scenes: readonly Scene[]): number[] {
  const order: number[] = [];
  let sorted = true;
  let highest = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < scenes.length; index++) {
    const { start_segment_id: start, end_segment_id: end } = scenes[index] as Scene;
    if (start > end) continue;
    if (start < highest) sorted = false;
    highest = start;
    order.push(index);
  }
  const startAt = (index: number): number => scenes[index]?.start_segment_id ?? 0;
  return sorted ? order : order.sort((a, b) => startAt(a) - startAt(b) || a - b);
}

function reportOutside(
  scene: Scene,
  index: number,
  pointer: string,
  what: string,
  found: PlacelessFinding[],
): void {
  found.push({ code: 'outside_scope', message: `${sentenceStart(scene, index)} ${what}.`, pointer });
}

function gapMessage({ text, one }: Ids, between: string): string {
  return `${text[0]?.toUpperCase() ?? ''}${text.slice(1)} ${one ? 'is' : 'are'} in no scene, ${between}.`;
}

interface Ids {
  text: string;
  one: boolean;
}

/** Returns a phrase for the segments from `from` to `to`, including both. Returns null if there are none. */
function idsBetween(from: number, to: number, transcript: Transcript | undefined): Ids | null {
  if (from > to) return null;
  if (transcript === undefined) return { text: range(from, to), one: from === to };
  const start = lowerBound(transcript.ids, from);
  const end = lowerBound(transcript.ids, to + 1);
  if (start >= end) return null;
  const ids = transcript.ids.slice(start, Math.min(end, start + 10));
  const more = end - start - ids.length;
  const text =
    end - start === 1
      ? `segment ${ids.join()}`
      : `segments ${ids.join(', ')}${more > 0 ? ` and ${more} more up to ${transcript.ids[end - 1] ?? to}` : ''}`;
  return { text, one: end - start === 1 };
}

function range(from: number, to: number): string {
  if (from === to) return `segment ${from}`;
  return to === from + 1 ? `segments ${from} and ${to}` : `segments ${from} to ${to}`;
}

/** Returns the index of the first id that is `id` or greater. */
function lowerBound(ids: readonly number[], id: number): number {
  let low = 0;
  let high = ids.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ids[middle] ?? 0) < id) low = middle + 1;
    else high = middle;
  }
  return low;
}

function checkIds({ scenes }: SceneMap, inOrder: boolean, found: PlacelessFinding[]): void {
  if (plainlyAscending(scenes)) return;
  const firstUse = new Map<string, number>();
  const highest = new Map<string, string>();
  for (const [index, { scene_id: id }] of scenes.entries()) {
    const pointer = `/scenes/${index}/scene_id`;
    const used = firstUse.get(id);
    if (used !== undefined) {
      const message = `The scene_id ${quoted(id)} of scene ${index + 1} is used by scene ${used + 1} already; each must be its own.`;
      found.push({ code: 'duplicate_scene_id', message, pointer });
      continue;
    }
    firstUse.set(id, index);
    if (!inOrder) continue;
    let split = id.length;
    while (split > 0 && isDigit(id.charCodeAt(split - 1))) split--;
    const prefix = id.slice(0, split);
    const number = id.slice(split).replace(/^0+(?=\d)/, '');
    const last = highest.get(prefix);
    if (
      last !== undefined &&
      (number.length - last.length || (number > last ? 1 : number < last ? -1 : 0)) <= 0
    ) {
      const message = `The scene_id ${quoted(id)} of scene ${index + 1} does not come after the number ${last}, which an earlier scene has; ids are sequential.`;
      found.push({ code: 'scene_id_not_sequential', message, pointer });
    } else highest.set(prefix, number);
  }
}

/**
 * Reports whether all ids have the same prefix, and their numbers are ascending. Nearly every map is like
 * this. Such ids are unique and in order, so there is no need for a lookup table.
 */
function plainlyAscending(scenes: readonly Scene[]): boolean {
  let prefix: string | undefined;
  let last = -1;
  for (const { scene_id: id } of scenes) {
    let split = id.length;
    let number = 0;
    for (let factor = 1; split > 0 && isDigit(id.charCodeAt(split - 1)); factor *= 10)
      number += (id.charCodeAt(--split) - 0x30) * factor;
    prefix ??= id.slice(0, split);
    if (split !== prefix.length || !id.startsWith(prefix) || number <= last || id.length - split > 15)
      return false;
    last = number;
  }
  return true;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

function checkTexts(map: SceneMap, found: PlacelessFinding[]): void {
  const { source_description: description } = map.session_scope;
  if (isBlank(description)) reportBlank('source_description', '/session_scope/source_description', found);
  // There can be a hundred thousand scenes. Loops with a counter are faster, and pointers are only made for
  // findings.
  for (let index = 0; index < map.scenes.length; index++) {
    const scene = map.scenes[index] as Scene;
    const { summary, main_participants: people } = scene;
    if (isBlank(scene.short_title)) reportBlank('short_title', `/scenes/${index}/short_title`, found);
    if (isBlank(summary)) reportBlank('summary', `/scenes/${index}/summary`, found);
    if (isBlank(scene.boundary_note)) reportBlank('boundary_note', `/scenes/${index}/boundary_note`, found);
    for (let at = 0; at < people.length; at++) {
      if (isBlank(people[at] ?? ''))
        reportBlank('A participant', `/scenes/${index}/main_participants/${at}`, found);
    }
    if (isWithinSentenceLimit(summary, 3)) continue;
    const sentences = countSentences(summary);
    if (sentences <= 3) continue;
    const message = `The summary of ${named(scene, index)} has ${sentences} sentences; one to three are asked for.`;
    found.push({ code: 'summary_too_long', message, pointer: `/scenes/${index}/summary` });
  }
  for (const [at, caveat] of map.boundary_caveats.entries()) {
    if (isBlank(caveat)) reportBlank('A caveat', `/boundary_caveats/${at}`, found);
  }
}

function isBlank(text: string): boolean {
  const first = text.charCodeAt(0);
  return !(first > 0x20 && first < 0x7f) && !/[^\s\p{C}]/u.test(text);
}

function reportBlank(name: string, pointer: string, found: PlacelessFinding[]): void {
  found.push({
    code: 'empty_string',
    message: `${name} is empty; say something or, in a list, leave it out.`,
    pointer,
  });
}

function checkBoundariesExist(map: SceneMap, transcript: Transcript, found: PlacelessFinding[]): void {
  const known = new Set(transcript.ids);
  const check = (id: number, pointer: string): void => {
    if (known.has(id)) return;
    const at = lowerBound(transcript.ids, id);
    const near = [transcript.ids[at - 1], transcript.ids[at]].filter((one) => one !== undefined);
    const message = `Segment ${id} is not in the transcript; the nearest ${near.length === 1 ? 'is' : 'are'} ${near.join(' and ')}.`;
    found.push({ code: 'segment_not_in_transcript', message, pointer });
  };
  check(map.session_scope.first_segment_id, '/session_scope/first_segment_id');
  check(map.session_scope.last_segment_id, '/session_scope/last_segment_id');
  for (const [index, scene] of map.scenes.entries()) {
    check(scene.start_segment_id, startOf(index));
    check(scene.end_segment_id, endOf(index));
  }
}

function named({ scene_id: id }: Scene, index: number): string {
  return `scene ${index + 1} (${quoted(id)})`;
}

function sentenceStart(scene: Scene, index: number): string {
  return `S${named(scene, index).slice(1)}`;
}

function startOf(index: number): string {
  return `/scenes/${index}/start_segment_id`;
}

function endOf(index: number): string {
  return `/scenes/${index}/end_segment_id`;
}
