import { type Digest, parseDigest } from '../lib/digest.ts';
import { type Instant, parseInstant } from '../lib/instant.ts';
import { isReservedPath, parseRelativePath, type RelativePath } from '../lib/paths.ts';
import type { Owner } from '../storage/identity.ts';
import { type Key, listedKey } from '../storage/key.ts';

/**
 * Thrown if a field of a state has the wrong type or value. `at` is where it is, such as `outputs[3].path`.
 */
export class Malformed extends Error {
  readonly at: string;
  readonly problem: string;

  constructor(at: string, problem: string) {
    super(at === '' ? problem : `${at} ${problem}`);
    this.at = at;
    this.problem = problem;
  }
}

/*
 * Parses the fields of states. Each parser returns a value of its type, or throws a `Malformed` error for the
 * location `at`.
 */

/**
 * Parses each item with `parse`. Errors from `parse` have a location within the item. Since there may be half
 * a million items, the full location is only put together if there is an error.
 */
export function asArrayOf<T>(value: unknown, at: string, parse: (item: unknown) => T): T[] {
  return asArray(value, at).map((item, index) => {
    try {
      return parse(item);
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      throw new Malformed(`${at}[${index}]${error.at === '' ? '' : `.${error.at}`}`, error.problem);
    }
  });
}

export function asObject(value: unknown, at: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Malformed(at, 'is not an object');
  return value as Record<string, unknown>;
}

function asArray(value: unknown, at: string): unknown[] {
  if (!Array.isArray(value)) throw new Malformed(at, 'is not an array');
  return value;
}

/** Parses a non-empty string. */
export function asString(value: unknown, at: string): string {
  if (typeof value !== 'string' || value === '') throw new Malformed(at, 'is not a non-empty string');
  return value;
}

export function asStringOrNull(value: unknown, at: string): string | null {
  return value === null ? null : asString(value, at);
}

/** Parses an integer from 0 to 2^53 − 1. */
export function asInteger(value: unknown, at: string): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0)
    throw new Malformed(at, 'is not a whole number');
  return value;
}

const instantForm = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/;

/** The time that was parsed last. All records of a publication have the same time. */
let lastInstant: string | undefined;

/** Parses an RFC 3339 time, and returns the original string. */
export function asInstant(value: unknown, at: string): string {
  const text = asString(value, at);
  // Return the same string object each time, so that there is only one in memory.
  if (text === lastInstant) return lastInstant;
  if (!instantForm.test(text) || Number.isNaN(Date.parse(text)))
    throw new Malformed(at, 'is not an RFC 3339 time');
  lastInstant = text;
  return text;
}

/** Parses an RFC 3339 time without rounding the fraction. */
export function asExactInstant(value: unknown, at: string): Instant {
  const verdict = parseInstant(asString(value, at));
  if (!verdict.ok) throw new Malformed(at, verdict.reason);
  return verdict.value;
}

export function asUrlOrNull(value: unknown, at: string): string | null {
  if (value === null) return null;
  const text = asString(value, at);
  if (!URL.canParse(text)) throw new Malformed(at, 'is not a URL');
  return text;
}

export function oneOf<const T extends string>(value: unknown, allowed: readonly T[], at: string): T {
  const found = allowed.find((candidate) => candidate === value);
  if (found === undefined) throw new Malformed(at, `is not one of ${allowed.join(', ')}`);
  return found;
}

export function asPath(value: unknown, at: string): RelativePath {
  const text = asString(value, at);
  const verdict = parseRelativePath(text);
  if (!verdict.ok) throw new Malformed(at, `${JSON.stringify(text)} ${verdict.reason}`);
  return verdict.path;
}

export function asOwner(owner: Record<string, unknown>, at: string): Owner {
  return {
    pipelineId: asString(owner['pipeline_id'], `${at}.pipeline_id`),
    destinationId: asString(owner['destination_id'], `${at}.destination_id`),
  };
}

export function asDigest(value: unknown, at: string): Digest {
  const digest = parseDigest(asString(value, at));
  if (digest === undefined) throw new Malformed(at, 'is not "sha256:" and 64 lower-case hexadecimal digits');
  return digest;
}

/**
 * Parses the name of a file that a storage could list below the bundle path. Not every such name can be used
 * in a bundle.
 */
export function asStoredKey(value: unknown, at: string): Key {
  const text = asString(value, at);
  if (!isStoredKey(text))
    throw new Malformed(at, `${JSON.stringify(text)} is not the name of a file below the bundle path`);
  return listedKey(text);
}

/**
 * Reports whether this key may appear in a state. Returns false for names that an object store allows, but a
 * file system does not, such as `a//b` or `a/../b`.
 */
export function isStoredKey(text: string): boolean {
  const escapes = text.split('/').some((segment) => segment === '' || segment === '.' || segment === '..');
  return !escapes && !text.includes('\0') && !isReservedPath(text);
}
