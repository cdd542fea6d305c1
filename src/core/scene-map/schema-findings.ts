import type { ErrorObject } from 'ajv';
import { distance } from 'fastest-levenshtein';
import { isRecord } from '../lib/json-document.ts';
import { escapePointer } from '../lib/located-json/measure.ts';
import { quoted } from '../lib/text.ts';
import { validate } from './generated/full-validator.js';
import type { Scene, SceneMap, SessionScope } from './generated/schema-types.ts';
import type { FindingCode, PlacelessFinding } from './report.ts';

/**
 * Describes in sentences how a document violates the schema. Returns up to `limit` findings, or one extra if
 * there are more. Scenes are checked in slices, and checking ends at the limit, so no document can make this
 * take forever.
 */
export function schemaFindings(document: unknown, limit: number): PlacelessFinding[] {
  const found: PlacelessFinding[] = [];
  for (const { value, firstScene, whole } of slices(document, limit)) {
    if (validate(value)) continue;
    for (const error of validate.errors ?? []) {
      const reported = findingOf(error, firstScene);
      if (whole || reported.pointer.startsWith('/scenes/')) found.push(reported);
    }
    if (found.length > limit) break;
  }
  return found;
}

const sliceLength = 50;

interface Slice {
  value: unknown;
  firstScene: number;
  /** Whether this is the first slice, which also has the findings about the rest of the document. */
  whole: boolean;
}

function* slices(document: unknown, limit: number): Generator<Slice> {
  const clipped = clip(document, limit, 0);
  if (!isRecord(document) || !isRecord(clipped) || !Array.isArray(document['scenes'])) {
    yield { value: clipped, firstScene: 0, whole: true };
    return;
  }
  const scenes: unknown[] = document['scenes'];
  for (let start = 0; start === 0 || start < scenes.length; start += sliceLength) {
    const part = scenes.slice(start, start + sliceLength).map((scene) => clip(scene, limit, 1));
    yield { value: { ...clipped, scenes: part }, firstScene: start, whole: start === 0 };
  }
}

/**
 * Returns a copy without any unknown properties and invalid strings beyond the limit, because they would not
 * be reported anyway.
 */
function clip(value: unknown, limit: number, depth: number): unknown {
  if (depth > 2) return value;
  if (Array.isArray(value)) {
    if (value.length <= limit) return value;
    let wrong = 0;
    return value.map((item: unknown) => (typeof item === 'string' || wrong++ <= limit ? item : ''));
  }
  if (!isRecord(value)) return value;
  let unknown = 0;
  const kept: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    if (!Object.hasOwn(known, key) && unknown++ > limit) continue;
    const inner = key === 'scenes' ? value[key] : clip(value[key], limit, depth + 1);
    // In parsed JSON, `__proto__` is a normal property. Simply assigning it would change the prototype, and
    // it would be missing here.
    Object.defineProperty(kept, key, { value: inner, enumerable: true, configurable: true, writable: true });
  }
  return kept;
}

/** The known properties. If one of them is missing, this does not compile. */
const known: Record<keyof SceneMap | keyof SessionScope | keyof Scene, true> = {
  artifact_type: true,
  session_scope: true,
  scenes: true,
  boundary_caveats: true,
  source_description: true,
  first_segment_id: true,
  last_segment_id: true,
  scene_id: true,
  start_segment_id: true,
  end_segment_id: true,
  short_title: true,
  primary_mode: true,
  main_participants: true,
  summary: true,
  boundary_note: true,
  boundary_confidence: true,
};

/** Returns the name of a missing property and, if there is only one, its value. */
function missingProperty({ params, parentSchema }: ErrorObject): string {
  const name = String((params as Record<string, unknown>)['missingProperty']);
  const { properties = {} } = parentSchema as { properties?: Record<string, { const?: string }> };
  const value = properties[name]?.const;
  return value === undefined ? `${quoted(name)}.` : `${quoted(name)}. It must be ${quoted(value)}.`;
}

function findingOf(error: ErrorObject, firstScene: number): PlacelessFinding {
  const pointer = error.instancePath.replace(
    /^\/scenes\/(\d+)/,
    (_, index: string) => `/scenes/${Number(index) + firstScene}`,
  );
  const params = error.params as Record<string, unknown>;
  const where = nameOf(pointer);
  switch (error.keyword) {
    case 'required': {
      const message = `${where} lacks the required property ${missingProperty(error)}`;
      return { code: 'missing_property', message, pointer };
    }
    case 'additionalProperties': {
      const name = String(params['additionalProperty']);
      const allowed = Object.keys((error.parentSchema as { properties: object }).properties);
      const near = nearest(name, allowed);
      const right = near === null ? `Allowed are ${allowed.join(', ')}.` : `Did you mean ${quoted(near)}?`;
      const message = `${where} has the unknown property ${quoted(name)}. ${right}`;
      return { code: 'unknown_property', message, pointer: `${pointer}/${escapePointer(name)}`, atKey: true };
    }
    case 'enum': {
      const allowed = params['allowedValues'] as string[];
      const near = typeof error.data === 'string' ? nearest(error.data, allowed) : null;
      const hint = near === null ? '' : ` Did you mean ${quoted(near)}?`;
      return {
        code: 'not_in_enumeration',
        message: `${where} is ${shown(error.data)} and must be one of ${allowed.join(', ')}.${hint}`,
        pointer,
      };
    }
    case 'const':
      return {
        code: 'wrong_constant',
        message: `${where} is ${shown(error.data)} and must be ${quoted(String(params['allowedValue']))}.`,
        pointer,
      };
    case 'pattern':
      return {
        code: 'pattern_mismatch',
        message: `${where} is ${shown(error.data)} and must end with a digit from 0 to 9.`,
        pointer,
      };
    case 'minItems':
      return {
        code: 'too_few_items',
        message: `${where} is empty and must hold at least one scene.`,
        pointer,
      };
    case 'type':
      return wrongType(where, error, pointer);
    default: {
      const code: FindingCode = 'wrong_type';
      return { code, message: `${where} ${error.message ?? 'is not what the schema asks for'}.`, pointer };
    }
  }
}

function wrongType(where: string, error: ErrorObject, pointer: string): PlacelessFinding {
  const wanted = String((error.params as Record<string, unknown>)['type']);
  const article =
    { string: 'a string', integer: 'an integer', object: 'an object', array: 'an array' }[wanted] ?? wanted;
  const quotes =
    wanted === 'integer' && typeof error.data === 'string' && /^-?\d+$/.test(error.data)
      ? ' Remove the quotes.'
      : '';
  return {
    code: 'wrong_type',
    message: `${where} is ${shown(error.data)} and must be ${article}.${quotes}`,
    pointer,
  };
}

function nameOf(pointer: string): string {
  if (pointer === '') return 'The document';
  const inScene = /^\/scenes\/(\d+)(?:\/(.*))?$/.exec(pointer);
  if (inScene === null) return pointer.slice(1).replaceAll('/', '.');
  return inScene[2] === undefined
    ? `Scene ${Number(inScene[1]) + 1}`
    : `${inScene[2].replaceAll('/', '.')} of scene ${Number(inScene[1]) + 1}`;
}

function shown(value: unknown): string {
  if (typeof value === 'string') return `the string ${quoted(value)}`;
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object' && value !== null) return 'an object';
  return typeof value === 'number' ? `the number ${value}` : String(value);
}

/** Returns the word that is most similar, or null if none is. */
function nearest(word: string, allowed: readonly string[]): string | null {
  if (word.length > 60) return null;
  const plain = (text: string): string => text.toLowerCase().replace(/[^a-z0-9]/g, '');
  const ranked = allowed
    .map((candidate) => ({ candidate, apart: distance(plain(word), plain(candidate)) }))
    .sort((a, b) => a.apart - b.apart);
  const best = ranked[0];
  return best !== undefined && best.apart <= Math.max(1, Math.floor(best.candidate.length / 4))
    ? best.candidate
    : null;
}
