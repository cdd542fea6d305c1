import { sameOwner, type SourceIdentity } from '../storage/identity.ts';
import type { GeneratedMetadata, OutputRecord } from './catalog.ts';
import {
  asDigest,
  asInstant,
  asInteger,
  asObject,
  asOwner,
  asPath,
  asString,
  asStringOrNull,
  asUrlOrNull,
  oneOf,
} from './parse-fields.ts';

export type SourceBackends = readonly SourceIdentity['backend'][];

/**
 * Returns a parser for the records of one state. It throws `Malformed` with the place within the record.
 * Equal owners, sources, kinds and metadata of adjacent records become one shared object, which halves the
 * memory that half a million records take.
 */
export function recordParser(backends: SourceBackends): (value: unknown) => OutputRecord {
  const owners = shared(sameOwner);
  const sources = shared(sameSource);
  const metadata = shared(samePlainMetadata);
  const kinds = shared<string>((a, b) => a === b);
  return (value) => {
    const record = asObject(value, '');
    return {
      path: asPath(record['path'], 'path'),
      owner: owners(asOwner(asObject(record['owner'], 'owner'), 'owner')),
      source: sources(parseSource(asObject(record['source'], 'source'), backends)),
      kind: kinds(asString(record['kind'], 'kind')),
      digest: asDigest(record['digest'], 'digest'),
      size: asInteger(record['size'], 'size'),
      updatedAt: asInstant(record['updated_at'], 'updated_at'),
      generated: metadata(parseGenerated(asObject(record['generated'], 'generated'))),
      url: asUrlOrNull(record['url'], 'url'),
    };
  };
}

/** Throws `Malformed`. */
export function parseSource(source: Record<string, unknown>, backends: SourceBackends): SourceIdentity {
  return {
    backend: oneOf(source['backend'], backends, 'source.backend'),
    id: asString(source['id'], 'source.id'),
    path: asString(source['path'], 'source.path'),
  };
}

/**
 * Number of recent values to compare with. Records are sorted by path, so adjacent ones are usually alike.
 */
const maxRecent = 8;

/** Returns a recent equal value in place of the given one. */
function shared<T>(isSame: (a: T, b: T) => boolean): (value: T) => T {
  const recent: T[] = [];
  return (value) => {
    for (const known of recent) if (isSame(known, value)) return known;
    if (recent.length === maxRecent) recent.pop();
    recent.unshift(value);
    return value;
  };
}

function sameSource(a: SourceIdentity, b: SourceIdentity): boolean {
  return a.backend === b.backend && a.id === b.id && a.path === b.path;
}

/** Never equal for generated outputs: there are few of them, and their inputs differ. */
function samePlainMetadata(a: GeneratedMetadata, b: GeneratedMetadata): boolean {
  return (
    a.generator === null &&
    b.generator === null &&
    a.contentType === b.contentType &&
    a.cacheControl === b.cacheControl
  );
}

function parseGenerated(generated: Record<string, unknown>): GeneratedMetadata {
  const generator = generated['generator'];
  return {
    contentType: asStringOrNull(generated['content_type'] ?? null, 'generated.content_type'),
    cacheControl: asStringOrNull(generated['cache_control'] ?? null, 'generated.cache_control'),
    generator: generator === undefined ? null : parseGenerator(asObject(generator, 'generated.generator')),
  };
}

function parseGenerator(generator: Record<string, unknown>): NonNullable<GeneratedMetadata['generator']> {
  return {
    name: asString(generator['name'], 'generated.generator.name'),
    version: asInteger(generator['version'], 'generated.generator.version'),
    inputs: asDigest(generator['inputs'], 'generated.generator.inputs'),
  };
}
