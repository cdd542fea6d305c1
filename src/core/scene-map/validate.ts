import { isUtf8 } from 'node:buffer';
import type { Finding } from '../finding.ts';
import { contentFindings } from './content-rules.ts';
import { type PlacelessFinding, sceneMapFinding } from './finding-codes.ts';
import { type JsonScan, scanJson } from './json-scan.ts';
import { findPlaces, lineIndex, parseBroken, quoted, type TextProblem } from './json-text.ts';
import { maxContainers, maxDepth, maxDocumentBytes, maxFindings } from './limits.ts';
import { validate as isValid } from './generated/quick-validator.js';
import { schemaFindings } from './schema-findings.ts';
import type { SceneMap } from './generated/schema-types.ts';
import type { Transcript } from './transcript.ts';

export interface CheckOptions {
  /** Leave the content rules out. */
  schemaOnly?: boolean;
  transcript?: Transcript;
  /** Bytes; the default is `maxDocumentBytes`. */
  maxBytes?: number;
}

export interface SceneMapCheck {
  /** The document, where it is valid under the schema; null otherwise. */
  map: SceneMap | null;
  /** Errors make the document invalid; warnings are the content rules. In the order of the text. */
  findings: Finding[];
}

/**
 * Everything that is wrong with a scene map document: errors of text and schema, and content rules as
 * warnings. Never throws.
 */
export function checkSceneMap(bytes: Uint8Array, file: string, options: CheckOptions = {}): Finding[] {
  return readSceneMap(bytes, file, options).findings;
}

/**
 * Reads and checks a scene map document. A sound document takes one pass over its bytes, `JSON.parse`, the
 * compiled schema and the rules; only a document with findings is read a second time, to say where each of
 * them is.
 */
export function readSceneMap(bytes: Uint8Array, file: string, options: CheckOptions = {}): SceneMapCheck {
  const refusedBytes = refuseBytes(bytes, file, options.maxBytes ?? maxDocumentBytes);
  if (refusedBytes !== null) return { map: null, findings: [refusedBytes] };
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  const scan = scanJson(text);
  const refusedShape = refuseShape(scan, file);
  if (refusedShape !== null) return { map: null, findings: [refusedShape] };

  const { value, problems } = parseText(text);
  const valid = isValid(value);
  const broken = problems.length > 0 || (valid && scan.colons !== propertiesOf(value as SceneMap));
  const rules =
    valid && options.schemaOnly !== true ? contentFindings(value as SceneMap, options.transcript) : [];
  if (valid && !broken && rules.length === 0) return { map: value as SceneMap, findings: [] };

  // A document that could not be understood at all would break the schema in ways that say nothing.
  const understood = problems.length === 0 || value !== undefined;
  const breaks = valid || !understood ? [] : schemaFindings(value, maxFindings);
  const findings = locate(text, file, problems, [...breaks, ...rules]);
  const errors = findings.some(({ severity }) => severity === 'error');
  return { map: valid && !errors ? (value as SceneMap) : null, findings: cap(findings, file) };
}

function refuseBytes(bytes: Uint8Array, file: string, maxBytes: number): Finding | null {
  if (bytes.length > maxBytes) {
    const message = `The document has ${bytes.length} bytes; at most ${maxBytes} are read.`;
    return sceneMapFinding('document_too_large', message, { file });
  }
  return isUtf8(bytes) ? null : invalidUtf8(bytes, file);
}

/** What is refused before parsing, for the sake of memory. */
function refuseShape({ depth, containers }: JsonScan, file: string): Finding | null {
  if (depth > maxDepth) {
    const message = `Objects and arrays are nested ${depth} deep; at most ${maxDepth} are read, and a scene map needs 4.`;
    return sceneMapFinding('nesting_too_deep', message, { file });
  }
  if (containers > maxContainers) {
    const message = `The document holds ${containers} objects and arrays; at most ${maxContainers} are read.`;
    return sceneMapFinding('document_too_large', message, { file });
  }
  return null;
}

function invalidUtf8(bytes: Uint8Array, file: string): Finding {
  let low = 0;
  let high = bytes.length;
  // The longest prefix that decodes, cut tail allowed: everything before the first wrong byte.
  const decodes = (length: number): boolean => {
    try {
      new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, length), { stream: true });
      return true;
    } catch {
      return false;
    }
  };
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (decodes(middle)) low = middle;
    else high = middle - 1;
  }
  // Streaming keeps back a character that is begun and not finished, which is the wrong one.
  const before = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes.subarray(0, low), {
    stream: true,
  });
  const utf16 = bytes[0] === 0xff || bytes[0] === 0xfe ? ' It looks like UTF-16.' : '';
  const message = `The text is not UTF-8: byte ${Buffer.byteLength(before) + 1} fits no character.${utf16} Save it as UTF-8.`;
  return sceneMapFinding('invalid_utf8', message, { file, ...lineIndex(before)(before.length) });
}

function parseText(text: string): { value: unknown; problems: TextProblem[] } {
  if (text.startsWith('\uFEFF')) {
    const message =
      'The text begins with a byte order mark, which JSON does not allow; save it as UTF-8 without one.';
    // Replaced by a space, so that every offset after it stays.
    const rest = parseText(` ${text.slice(1)}`);
    return {
      value: rest.value,
      problems: [{ code: 'byte_order_mark', message, offset: 0, pointer: null }, ...rest.problems],
    };
  }
  if (text.trim() === '') {
    const message = 'The document is empty; one JSON object is expected.';
    return { value: undefined, problems: [{ code: 'empty_document', message, offset: 0, pointer: null }] };
  }
  try {
    return { value: JSON.parse(text), problems: [] };
  } catch (error) {
    const broken = parseBroken(text);
    if (broken.problems.length > 0) return broken;
    const message = `This is not JSON: ${quoted(error instanceof Error ? error.message : String(error))}.`;
    return { value: undefined, problems: [{ code: 'json_syntax', message, offset: 0, pointer: null }] };
  }
}

/**
 * How many properties a document that is valid under the schema has: more colons in its text mean a key was
 * written twice.
 */
function propertiesOf(map: SceneMap): number {
  return 7 + 9 * map.scenes.length;
}

function locate(
  text: string,
  file: string,
  problems: readonly TextProblem[],
  pointed: readonly PlacelessFinding[],
): Finding[] {
  const places = findPlaces(text, new Set(pointed.map(({ pointer }) => pointer)), maxFindings);
  const position = lineIndex(text);
  const located = [...problems, ...places.duplicates].map(({ code, message, pointer, offset }) => ({
    offset,
    finding: sceneMapFinding(code, message, { file, pointer, ...position(offset) }),
  }));
  for (const { code, message, pointer, atKey } of pointed) {
    const offset = (atKey === true ? places.key.get(pointer) : undefined) ?? places.value.get(pointer) ?? 0;
    located.push({ offset, finding: sceneMapFinding(code, message, { file, pointer, ...position(offset) }) });
  }
  return located.sort((a, b) => a.offset - b.offset).map(({ finding }) => finding);
}

function cap(findings: Finding[], file: string): Finding[] {
  if (findings.length <= maxFindings) return findings;
  const message = `More than ${maxFindings} findings; the first ${maxFindings} are told. Mend them and look again.`;
  // A cut must never turn an invalid document into one with warnings alone.
  const shown = [...findings]
    .sort((a, b) => Number(b.severity === 'error') - Number(a.severity === 'error'))
    .slice(0, maxFindings);
  const severity = findings.some((one) => one.severity === 'error') ? 'error' : 'warning';
  return [...shown, { ...sceneMapFinding('too_many_findings', message, { file }), severity }];
}
