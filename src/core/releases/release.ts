import type { OutputRecord } from '../catalog/catalog.ts';
import { finishDigest, hexOf, startDigest } from '../lib/digest.ts';
import type { Instant } from '../lib/instant.ts';
import { joinKey, type Key, listedKey } from '../storage/key.ts';

/*
 * Release ids, and the names that releases and pointers have in storage.
 */

declare const releaseBrand: unique symbol;
/**
 * A release id such as `20261121T101500Z-9f2c41aa`: the time when the bundle was created, in UTC, and the
 * first digits of a digest of its outputs.
 */
export type ReleaseId = string & { readonly [releaseBrand]: true };

/** How files are arranged at a bundle path: in place, or as releases, one of which is current. */
export type Layout = 'in_place' | 'releases';

/** The directory with the releases, relative to the bundle path. */
export const releasesKey = joinKey('', 'releases');
/** The pointer that readers follow. It is a symbolic link or, on an object store, an object. */
export const currentLinkKey = joinKey('', 'current');
export const currentObjectKey = joinKey('', 'current.json');

/** The parts of an output that decide its content, headers and record. */
export type ReleasedOutput = Omit<OutputRecord, 'updatedAt'>;

const idForm = /^\d{8}T\d{6}Z-[0-9a-f]{8}$/;
const withinRelease = /^(?:.+\/)?releases\/\d{8}T\d{6}Z-[0-9a-f]{8}(?=\/|$)/i;
const releasePathForm = /^(?:(.+)\/)?releases\/([^/]+)$/;

/**
 * Returns the key of a channel's pointer. There is none on an object store, where channels are fields of
 * `current.json`.
 */
export function channelLinkKey(name: string): Key {
  return joinKey('', name);
}

export function parseReleaseId(text: string): ReleaseId | undefined {
  return idForm.test(text) ? (text as ReleaseId) : undefined;
}

/**
 * Returns the id of the release for these outputs. The same plan always has the same id, so a run after a
 * crash finds the directory that was started. The id depends on every recorded field of an output except its
 * time, since the records in a release never change. `outputs` must be sorted by path.
 */
export function releaseIdOf(created: Instant, outputs: Iterable<ReleasedOutput>): ReleaseId {
  const hash = startDigest().update(created);
  for (const { path, kind, digest, size, generated, url, source, owner } of outputs) {
    const { contentType, cacheControl, generator } = generated;
    const how = generator === null ? null : [generator.name, generator.version, generator.inputs];
    const from = [source.backend, source.id, source.path, owner.pipelineId, owner.destinationId];
    const parts = [path, kind, digest, size, contentType, cacheControl, how, url, from];
    hash.update(`\n${JSON.stringify(parts)}`);
  }
  const second = created.slice(0, 'YYYY-MM-DDThh:mm:ss'.length).replaceAll(/[-:]/g, '');
  return `${second}Z-${hexOf(finishDigest(hash)).slice(0, 8)}` as ReleaseId;
}

/** Returns a release's directory, relative to the bundle path. */
export function releaseKey(id: ReleaseId): Key {
  return joinKey(releasesKey, id);
}

/**
 * Splits the path of a release into its bundle path (`.` for the root) and id. Returns null if it is not one.
 */
export function releasePathOf(path: string): { bundlePath: string; id: ReleaseId } | null {
  const [, above, name = ''] = releasePathForm.exec(path) ?? [];
  const id = parseReleaseId(name);
  return id === undefined ? null : { bundlePath: above ?? '.', id };
}

/**
 * Returns the release directory that contains this path, or the path itself if it is one. Returns null if it
 * is neither. Ignores case, because some file systems do.
 */
export function enclosingRelease(path: string): string | null {
  return withinRelease.exec(path)?.[0] ?? null;
}

/** Reports whether a key in a bundle path is a pointer, a release, or a file that belongs to a release. */
export function isReleaseKey(key: string, channels: readonly string[] = []): boolean {
  const [first = '', second = ''] = key.split('/');
  if (first !== releasesKey)
    return first === currentLinkKey || key === currentObjectKey || channels.includes(first);
  return parseReleaseId(second) !== undefined;
}

/** Returns the release that a pointer's target refers to, or null if the target is something else. */
export function parsePointerTarget(target: string): ReleaseId | null {
  const prefix = `${releasesKey}/`;
  const name = listedKey(target);
  return name.startsWith(prefix) ? (parseReleaseId(name.slice(prefix.length)) ?? null) : null;
}
