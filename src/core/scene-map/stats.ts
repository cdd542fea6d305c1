import type { Scene, SceneMap } from './generated/schema-types.ts';

export const modes = [
  'Recap',
  'Planning',
  'Combat',
  'Narrative',
] as const satisfies readonly Scene['primary_mode'][];
export const confidences = [
  'High',
  'Medium',
  'Low',
] as const satisfies readonly Scene['boundary_confidence'][];

export interface Tally {
  scenes: number;
  /** How many integers there are from the start to the end of each scene. */
  segments: number;
}

export interface SceneMapStats {
  schema_version: 1;
  scenes: number;
  first_segment_id: number;
  last_segment_id: number;
  segments: number;
  modes: Record<Scene['primary_mode'], Tally>;
  confidences: Record<Scene['boundary_confidence'], Tally>;
  /** Sorted by the number of scenes, highest first, and then by name. */
  participants: ({ name: string } & Tally)[];
  shortest: { scene_id: string; segments: number } | null;
  longest: { scene_id: string; segments: number } | null;
}

/**
 * Counts the scenes and segments of a map by mode, confidence and participant. A scene that ends before it
 * starts has no segments.
 */
export function sceneMapStats(map: SceneMap): SceneMapStats {
  const { first_segment_id: first, last_segment_id: last } = map.session_scope;
  const byMode = Object.fromEntries(modes.map((mode) => [mode, empty()])) as SceneMapStats['modes'];
  const byConfidence = Object.fromEntries(
    confidences.map((one) => [one, empty()]),
  ) as SceneMapStats['confidences'];
  const people = new Map<string, Tally>();
  let shortest: SceneMapStats['shortest'] = null;
  let longest: SceneMapStats['longest'] = null;
  for (const scene of map.scenes) {
    const segments = segmentsOf(scene);
    add(byMode[scene.primary_mode], segments);
    add(byConfidence[scene.boundary_confidence], segments);
    for (const name of new Set(scene.main_participants)) {
      const tally = people.get(name) ?? empty();
      people.set(name, tally);
      add(tally, segments);
    }
    if (shortest === null || segments < shortest.segments) shortest = { scene_id: scene.scene_id, segments };
    if (longest === null || segments > longest.segments) longest = { scene_id: scene.scene_id, segments };
  }
  const participants = [...people]
    .map(([name, tally]) => ({ name, ...tally }))
    .sort((a, b) => b.scenes - a.scenes || (a.name < b.name ? -1 : 1));
  return {
    schema_version: 1,
    scenes: map.scenes.length,
    first_segment_id: first,
    last_segment_id: last,
    segments: Math.max(0, last - first + 1),
    modes: byMode,
    confidences: byConfidence,
    participants,
    shortest,
    longest,
  };
}

export function segmentsOf({ start_segment_id: start, end_segment_id: end }: Scene): number {
  return Math.max(0, end - start + 1);
}

function empty(): Tally {
  return { scenes: 0, segments: 0 };
}

function add(tally: Tally, segments: number): void {
  tally.scenes++;
  tally.segments += segments;
}
