import type { Scene, SceneMap } from '../../../src/core/scene-map/generated/schema-types.ts';

/** A valid map of `count` scenes of `length` segments each, beginning at segment 1. */
export function soundMap(count = 4, length = 10): SceneMap {
  return {
    artifact_type: 'current_session_scene_map',
    session_scope: { source_description: 'A session', first_segment_id: 1, last_segment_id: count * length },
    scenes: Array.from({ length: count }, (_, index) =>
      soundScene(index, index * length + 1, (index + 1) * length),
    ),
    boundary_caveats: ['One caveat.'],
  };
}

export function soundScene(index: number, start: number, end: number): Scene {
  return {
    scene_id: `S${index + 1}`,
    start_segment_id: start,
    end_segment_id: end,
    short_title: `Scene number ${index + 1}`,
    primary_mode: (['Recap', 'Planning', 'Combat', 'Narrative'] as const)[index % 4] ?? 'Recap',
    main_participants: ['Bram', `Guest ${index % 7}`],
    summary: 'The party enters the cave. Bram lights a lantern and finds the stair. They go down.',
    boundary_note: 'Starts at the mouth of the cave.',
    boundary_confidence: (['High', 'Medium', 'Low'] as const)[index % 3] ?? 'High',
  };
}

export function bytesOf(value: unknown): Uint8Array {
  return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
}
