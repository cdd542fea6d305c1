import type { Finding } from '../lib/errors.ts';
import { decodeUtf8, positionsIn } from '../lib/located-json/decode.ts';
import { examineJson, type JsonLimits, type ParsedJson, parseJson } from '../lib/located-json/examine.ts';
import { type JsonShape, measureJson } from '../lib/located-json/measure.ts';
import { type JsonProblem, type JsonProblemKind, toSentence } from '../lib/located-json/tokens.ts';
import { contentFindings } from './content-rules.ts';
import { validate as isValid } from './generated/quick-validator.js';
import type { SceneMap } from './generated/schema-types.ts';
import {
  type FindingCode,
  maxContainers,
  maxDepth,
  maxDocumentBytes,
  maxFindings,
  type PlacelessFinding,
  sceneMapFinding,
} from './report.ts';
import { schemaFindings } from './schema-findings.ts';
import type { Transcript } from './transcript.ts';

interface SceneMapCheckOptions {
  /** Do not check the content rules. */
  schemaOnly?: boolean;
  transcript?: Transcript;
  /** How large the document can be, in bytes; default: `maxDocumentBytes`. */
  maxBytes?: number;
  /** How many findings to report. This cannot be more than `maxFindings`, which is the default. */
  maxReported?: number;
}

export interface SceneMapCheck {
  /** The document; null if it is not valid according to the schema. */
  map: SceneMap | null;
  /**
   * Findings in the order they appear in the text. With an error, the document is invalid. Warnings are about
   * content rules.
   */
  findings: Finding[];
}

/**
 * Checks a scene map. Problems with the text or the schema are errors, and violations of content rules are
 * warnings. Never throws.
 */
export function checkSceneMap(
  bytes: Uint8Array,
  file: string,
  options: SceneMapCheckOptions = {},
): Finding[] {
  return readSceneMap(bytes, file, options).findings;
}

const limits: JsonLimits = { depth: maxDepth, containers: maxContainers, problems: maxFindings };

const codeOf: Record<JsonProblemKind, FindingCode> = {
  empty: 'empty_document',
  syntax: 'json_syntax',
  trailing_comma: 'trailing_comma',
  comment: 'json_comment',
  duplicate_key: 'duplicate_key',
  too_deep: 'nesting_too_deep',
  too_many_containers: 'document_too_large',
};

/**
 * Reads a scene map and checks it. If anything is found, the document is read again to find out where it is.
 * Never throws.
 */
export function readSceneMap(
  bytes: Uint8Array,
  file: string,
  options: SceneMapCheckOptions = {},
): SceneMapCheck {
  const maxBytes = options.maxBytes ?? maxDocumentBytes;
  if (bytes.length > maxBytes) {
    const message = `The document has ${bytes.length} bytes; at most ${maxBytes} are read.`;
    return refused(sceneMapFinding('document_too_large', message, { file }));
  }
  const decoded = decodeUtf8(bytes);
  if (!decoded.ok) {
    const { byte, line, column, looksLikeUtf16 } = decoded;
    const message = `The text is not UTF-8: byte ${byte} fits no character.${looksLikeUtf16 ? ' It looks like UTF-16.' : ''} Save it as UTF-8.`;
    return refused(sceneMapFinding('invalid_utf8', message, { file, line, column }));
  }
  const { text } = decoded;
  const shape = measureJson(text);
  const tooMuch = refuseShape(shape, file);
  if (tooMuch !== null) return refused(tooMuch);

  const { value, problems } = parseJson(text, limits);
  const valid = isValid(value);
  const isBroken =
    decoded.hasByteOrderMark ||
    problems.length > 0 ||
    (valid && shape.colons !== propertiesOf(value as SceneMap));
  const rules =
    valid && options.schemaOnly !== true ? contentFindings(value as SceneMap, options.transcript) : [];
  if (valid && !isBroken && rules.length === 0) return { map: value as SceneMap, findings: [] };

  // If nothing could be recovered, it makes no sense to compare it with the schema.
  const isUnderstood = problems.length === 0 || value !== undefined;
  const breaks = valid || !isUnderstood ? [] : schemaFindings(value, maxFindings);
  const findings = locate(text, file, problems, [...breaks, ...rules]);
  if (decoded.hasByteOrderMark) findings.unshift(byteOrderMark(file));
  const errors = findings.some(({ severity }) => severity === 'error');
  return {
    map: valid && !errors ? (value as SceneMap) : null,
    findings: cap(findings, file, options.maxReported),
  };
}

function refused(finding: Finding): SceneMapCheck {
  return { map: null, findings: [finding] };
}

/**
 * Refuses a document before it is parsed if it is so large, or has so many levels, that memory or the stack
 * could run out.
 */
function refuseShape({ depth, containers }: JsonShape, file: string): Finding | null {
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

function byteOrderMark(file: string): Finding {
  const message =
    'The text begins with a byte order mark, which JSON does not allow; save it as UTF-8 without one.';
  return sceneMapFinding('byte_order_mark', message, { file, line: 1, column: 1 });
}

/**
 * Returns how many properties there are in a document, if it is valid according to the schema. If there are
 * more colons in the text, it has a duplicate key.
 */
function propertiesOf(map: SceneMap): number {
  return 7 + 9 * map.scenes.length;
}

function locate(
  text: string,
  file: string,
  problems: ParsedJson['problems'],
  pointed: readonly PlacelessFinding[],
): Finding[] {
  const examined = examineJson(text, { limits, wanted: pointed.map(({ pointer }) => pointer) });
  const duplicates = examined.problems.filter(({ kind }) => kind === 'duplicate_key');
  const byOffset = (a: { offset: number }, b: { offset: number }): number => a.offset - b.offset;
  // Mistakes in the JSON come first, because the others can follow from them.
  const broken = [...problems, ...duplicates].map((problem) => ({
    ...asFinding(problem),
    offset: problem.offset,
  }));
  const located = [
    ...broken.sort(byOffset),
    ...pointed
      .map(({ code, message, pointer, atKey }) => ({
        code,
        message,
        pointer,
        offset: (atKey === true ? examined.keyOffset(pointer) : null) ?? examined.valueOffset(pointer),
      }))
      .sort(byOffset),
  ];
  const positionOf = positionsIn(text);
  return located.map(({ code, message, pointer, offset }) =>
    sceneMapFinding(code, message, { file, pointer, ...positionOf(offset) }),
  );
}

function asFinding({ kind, message, pointer }: JsonProblem): {
  code: FindingCode;
  message: string;
  pointer: string | null;
} {
  const sentence = toSentence(message);
  return {
    code: codeOf[kind],
    message: kind === 'duplicate_key' ? `${sentence} Remove one.` : sentence,
    pointer,
  };
}

function cap(findings: Finding[], file: string, limit = maxFindings): Finding[] {
  if (findings.length <= limit) return findings;
  const message = `More than ${limit} findings; the first ${limit} are reported. Fix them and check again.`;
  // When cutting off the list, make sure that an invalid document still has an error.
  const shown = [...findings]
    .sort((a, b) => Number(b.severity === 'error') - Number(a.severity === 'error'))
    .slice(0, limit);
  const severity = findings.some((one) => one.severity === 'error') ? 'error' : 'warning';
  return [...shown, { ...sceneMapFinding('too_many_findings', message, { file }), severity }];
}
