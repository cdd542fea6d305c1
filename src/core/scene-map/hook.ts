import { finding, type Finding } from '../finding.ts';

/**
 * Says what is wrong with the bytes of a session scene map; `file` names it in the findings. Errors make a bundle invalid; warnings are for people,
 * unless the pipeline says that they count as errors.
 */
export type SceneMapCheck = (bytes: Uint8Array, file: string) => Finding[];

/** The kind under which a manifest lists scene maps. */
export const sceneMapKind = 'scene_map';
/** Bytes. Scene maps are checked in memory. */
export const maxSceneMapBytes = 16 * 2 ** 20;

const artifactType = 'current_session_scene_map';

/** The least that makes a file a scene map: a JSON object in UTF-8 that says it is one. */
export const checkSceneMap: SceneMapCheck = (bytes, file) => {
  const invalid = (code: string, message: string, pointer: string): Finding[] => [
    finding('error', code, message, { file, pointer }),
  ];
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return invalid('scene_map_not_json', 'a scene map must be JSON in UTF-8, and this is not', '');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return invalid('scene_map_not_object', 'a scene map must be a JSON object', '');
  const type: unknown = Object.getOwnPropertyDescriptor(value, 'artifact_type')?.value;
  if (type === artifactType) return [];
  return invalid('scene_map_wrong_type', `artifact_type must be "${artifactType}"`, '/artifact_type');
};
