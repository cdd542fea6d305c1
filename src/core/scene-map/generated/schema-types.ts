/* Generated from scene-map.schema.json by scripts/generate-scene-map.ts: change the schema, not this file. */

/**
 * Divides a tabletop role-playing session transcript into sequential, contiguous, non-overlapping scenes that together cover it.
 */
export interface SceneMap {
  /**
   * Must equal the constant `current_session_scene_map`.
   */
  artifact_type: 'current_session_scene_map';
  session_scope: SessionScope;
  /**
   * The scenes in order, contiguous and without overlap, from the first segment of the scope to the last.
   */
  scenes: Scene[];
  /**
   * Overall caveats: ambiguous transitions, map-dependent context, alternative reasonable divisions.
   *
   * Items: One caveat.
   */
  boundary_caveats: string[];
}
/**
 * What the map covers.
 */
export interface SessionScope {
  /**
   * Brief description of the transcript or source reviewed.
   */
  source_description: string;
  /**
   * First transcript segment covered by the map.
   */
  first_segment_id: number;
  /**
   * Final transcript segment covered by the map.
   */
  last_segment_id: number;
}
/**
 * One scene of the session.
 */
export interface Scene {
  /**
   * Stable sequential scene identifier; ends with a digit.
   */
  scene_id: string;
  /**
   * Exact segment ID where the scene begins.
   */
  start_segment_id: number;
  /**
   * Exact segment ID where the scene ends.
   */
  end_segment_id: number;
  /**
   * Compact descriptive title.
   */
  short_title: string;
  /**
   * Dominant mode of play.
   */
  primary_mode: 'Recap' | 'Planning' | 'Combat' | 'Narrative';
  /**
   * Principal player characters, NPCs, factions or groups in the scene.
   *
   * Items: One participant's name.
   */
  main_participants: string[];
  /**
   * One- to three-sentence factual summary of what happened.
   */
  summary: string;
  /**
   * Brief reason the scene starts and ends at these segment boundaries.
   */
  boundary_note: string;
  /**
   * Confidence that the boundaries are natural and useful.
   */
  boundary_confidence: 'High' | 'Medium' | 'Low';
}
