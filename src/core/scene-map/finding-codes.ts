import { finding, type Finding } from '../lib/errors.ts';

/**
 * The codes of findings about scene maps, with their rules. `error` findings make the document invalid.
 * `warning` findings are content rules. `docs/scene-map.md` lists all codes, and a test checks that.
 */
export const findingCodes = {
  document_too_large: {
    severity: 'error',
    about: 'The document is at most 64 MiB and holds at most 1,000,000 objects and arrays.',
  },
  nesting_too_deep: {
    severity: 'error',
    about: 'Objects and arrays are nested at most 64 deep; a scene map needs 4.',
  },
  invalid_utf8: { severity: 'error', about: 'The document is UTF-8 text.' },
  byte_order_mark: { severity: 'error', about: 'JSON text begins without a byte order mark.' },
  empty_document: { severity: 'error', about: 'The document holds one JSON object.' },
  json_syntax: { severity: 'error', about: 'The document is JSON as RFC 8259 has it.' },
  trailing_comma: { severity: 'error', about: 'No comma stands before a closing bracket or brace.' },
  json_comment: { severity: 'error', about: 'JSON has no comments.' },
  duplicate_key: { severity: 'error', about: 'A key stands once in an object.' },
  missing_property: { severity: 'error', about: 'Every property of the schema is present.' },
  unknown_property: { severity: 'error', about: 'No property but those of the schema is present.' },
  wrong_type: { severity: 'error', about: 'A value is of the type that the schema names.' },
  wrong_constant: { severity: 'error', about: '`artifact_type` is `current_session_scene_map`.' },
  not_in_enumeration: { severity: 'error', about: 'A mode or a confidence is one of the words of its list.' },
  pattern_mismatch: { severity: 'error', about: '`scene_id` ends with a digit.' },
  too_few_items: { severity: 'error', about: '`scenes` has at least one item.' },
  too_many_findings: {
    severity: 'error',
    about: 'More was found than is told; mend the first and look again.',
  },
  scope_reversed: { severity: 'warning', about: '`first_segment_id` is not after `last_segment_id`.' },
  scene_reversed: { severity: 'warning', about: 'A scene starts no later than it ends.' },
  out_of_order: { severity: 'warning', about: 'Scenes stand in the order in which they start.' },
  gap: { severity: 'warning', about: 'Every segment of the scope is in a scene.' },
  overlap: { severity: 'warning', about: 'No segment is in two scenes.' },
  outside_scope: { severity: 'warning', about: 'Scenes lie within `first_segment_id` to `last_segment_id`.' },
  duplicate_scene_id: { severity: 'warning', about: 'Each `scene_id` is used once.' },
  scene_id_not_sequential: { severity: 'warning', about: 'The numbers at the end of the scene ids ascend.' },
  summary_too_long: { severity: 'warning', about: 'A summary has one to three sentences.' },
  empty_string: { severity: 'warning', about: 'Every text says something.' },
  unsafe_integer: {
    severity: 'warning',
    about: 'Segment ids are whole numbers that JSON readers hold exactly (up to 9,007,199,254,740,991).',
  },
  segment_not_in_transcript: { severity: 'warning', about: 'Every boundary is a segment of the transcript.' },
} as const satisfies Record<string, { severity: Finding['severity']; about: string }>;

export type FindingCode = keyof typeof findingCodes;

/**
 * A finding without line and column. `atKey` locates it at the name of the property instead of its value.
 */
export interface PlacelessFinding {
  code: FindingCode;
  message: string;
  pointer: string;
  atKey?: boolean;
}

export function sceneMapFinding(
  code: FindingCode,
  message: string,
  place: { file: string; pointer?: string | null; line?: number | null; column?: number | null },
): Finding {
  return finding(findingCodes[code].severity, code, message, place);
}
