import { type Finding, finding } from '../lib/errors.ts';

/*
 * Limits for documents. A malicious one cannot use unlimited memory, and leads to a clear error.
 */

export const maxDocumentBytes = 64 * 1024 * 1024;
/** How many objects and arrays there can be. In a map with 100,000 scenes, there are 200,003. */
export const maxContainers = 1_000_000;
/** How deep they can be nested. The schema needs 4 levels. */
export const maxDepth = 64;
/** How many findings a document can have. If there are more, another finding says so. */
export const maxFindings = 10_000;

/**
 * The codes of scene map findings, with the rules that they stand for. An `error` makes a document invalid. A
 * `warning` is about a content rule. There is a test that makes sure that all codes are in
 * `docs/scene-map.md`.
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
  json_syntax: { severity: 'error', about: 'The document is valid JSON (RFC 8259).' },
  trailing_comma: { severity: 'error', about: 'No comma comes before a closing bracket or brace.' },
  json_comment: { severity: 'error', about: 'JSON has no comments.' },
  duplicate_key: { severity: 'error', about: 'A key appears once in an object.' },
  missing_property: { severity: 'error', about: 'Every property of the schema is present.' },
  unknown_property: { severity: 'error', about: 'Every property is defined by the schema.' },
  wrong_type: { severity: 'error', about: 'A value is of the type that the schema names.' },
  wrong_constant: { severity: 'error', about: '`artifact_type` is `current_session_scene_map`.' },
  not_in_enumeration: { severity: 'error', about: 'A mode or a confidence is one of the words of its list.' },
  pattern_mismatch: { severity: 'error', about: '`scene_id` ends with a digit.' },
  too_few_items: { severity: 'error', about: '`scenes` has at least one item.' },
  too_many_findings: {
    severity: 'error',
    about: 'There are more findings than the report lists. Fix the listed ones and validate again.',
  },
  scope_reversed: { severity: 'warning', about: '`first_segment_id` is not after `last_segment_id`.' },
  scene_reversed: { severity: 'warning', about: 'A scene starts no later than it ends.' },
  out_of_order: { severity: 'warning', about: 'Scenes are in the order in which they start.' },
  gap: { severity: 'warning', about: 'Every segment of the scope is in a scene.' },
  overlap: { severity: 'warning', about: 'No segment is in two scenes.' },
  outside_scope: { severity: 'warning', about: 'Scenes lie within `first_segment_id` to `last_segment_id`.' },
  duplicate_scene_id: { severity: 'warning', about: 'Each `scene_id` is used once.' },
  scene_id_not_sequential: { severity: 'warning', about: 'The numbers at the end of the scene ids ascend.' },
  summary_too_long: { severity: 'warning', about: 'A summary has one to three sentences.' },
  empty_string: { severity: 'warning', about: 'No text is empty.' },
  unsafe_integer: {
    severity: 'warning',
    about: 'Segment ids are whole numbers that JSON readers hold exactly (up to 9,007,199,254,740,991).',
  },
  segment_not_in_transcript: { severity: 'warning', about: 'Every boundary is a segment of the transcript.' },
} as const satisfies Record<string, { severity: Finding['severity']; about: string }>;

export type FindingCode = keyof typeof findingCodes;

/**
 * A finding that does not have a line and column yet. With `atKey`, it will point to the name of the property
 * and not to its value.
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

/*
 * Formats the results of checks as JSON, SARIF and GitHub annotations.
 */

export interface CheckedFile {
  file: string;
  findings: readonly Finding[];
}

interface SceneMapReport {
  schema_version: 1;
  /** Whether there are no errors. There may be warnings. */
  valid: boolean;
  /** Whether there are neither errors nor warnings. */
  clean: boolean;
  files: { file: string; valid: boolean; findings: readonly Finding[] }[];
}

/** Returns a report as JSON, for the CLI and the HTTP API. */
export function sceneMapReport(checked: readonly CheckedFile[]): SceneMapReport {
  const files = checked.map(({ file, findings }) => ({
    file,
    valid: !findings.some(({ severity }) => severity === 'error'),
    findings,
  }));
  return {
    schema_version: 1,
    valid: files.every(({ valid }) => valid),
    clean: files.every(({ findings }) => findings.length === 0),
    files,
  };
}

/** Returns a log in SARIF 2.1.0, for code scanners. */
export function sarifReport(checked: readonly CheckedFile[]): object {
  const used = [...new Set(checked.flatMap(({ findings }) => findings.map(({ code }) => code)))].sort();
  const about = new Map<string, string>(
    Object.entries(findingCodes).map(([code, entry]) => [code, entry.about]),
  );
  return {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: {
            name: 'waybill scene-map',
            rules: used.map((id) => ({ id, shortDescription: { text: about.get(id) ?? id } })),
          },
        },
        columnKind: 'utf16CodeUnits',
        results: checked.flatMap(({ findings }) => findings.map(sarifResult)),
      },
    ],
  };
}

function sarifResult({ severity, code, message, file, pointer, line, column }: Finding): object {
  const region = line === null ? undefined : { startLine: line, startColumn: column ?? undefined };
  const uri = (file ?? '').split('/').map(encodeURIComponent).join('/');
  return {
    ruleId: code,
    level: severity,
    message: { text: message },
    locations: [
      {
        physicalLocation: { artifactLocation: { uri }, region },
        logicalLocations: pointer === null ? undefined : [{ fullyQualifiedName: pointer }],
      },
    ],
  };
}

/** Returns a workflow command for GitHub, which shows the finding where it is in the file. */
export function githubAnnotation({ severity, code, message, file, line, column, pointer }: Finding): string {
  const properties = { file, line, col: column, title: `scene map: ${code}` };
  const listed = Object.entries(properties)
    .filter(([, value]) => value !== null)
    .map(
      ([name, value]) => `${name}=${escapeData(String(value)).replaceAll(':', '%3A').replaceAll(',', '%2C')}`,
    );
  const place = pointer === null || pointer === '' ? '' : ` (${pointer})`;
  return `::${severity} ${listed.join(',')}::${escapeData(message + place)}`;
}

function escapeData(text: string): string {
  return text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}
