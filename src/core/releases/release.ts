import type { OutputRecord } from '../catalog/catalog.ts';
import { hexOf, finishDigest, startDigest } from '../digest.ts';
import type { Instant } from '../instant.ts';
import { joinKey, listedKey, type Key } from '../storage/key.ts';

declare const releaseBrand: unique symbol;
/**
 * The name of one release of a bundle path, such as `20261121T101500Z-9f2c41aa`: when its bundle was created,
 * to the second and in UTC, and the first digits of what it consists of.
 */
export type ReleaseId = string & { readonly [releaseBrand]: true };

/** How a bundle path is published: at its own place, or as releases of which one is current. */
export type Layout = 'in_place' | 'releases';

/** The directory of all releases of a bundle path, within it. */
export const releasesKey = joinKey('', 'releases');
/** What readers follow: a symbolic link or, on an object store, an object. */
export const currentLinkKey = joinKey('', 'current');
export const currentObjectKey = joinKey('', 'current.json');

/** What decides about the bytes, the headers and the record of one output. */
export type ReleasedOutput = Omit<OutputRecord, 'updatedAt'>;

const idForm = /^\d{8}T\d{6}Z-[0-9a-f]{8}$/;
const releasePathForm = /^(?:(.+)\/)?releases\/([^/]+)$/;

/** Where readers of a channel of this name follow it; on object stores it is in the one pointer. Pure. */
export function channelLinkKey(name: string): Key {
  return joinKey('', name);
}

/** Undefined if the text is no id of a release. Pure. */
export function parseReleaseId(text: string): ReleaseId | undefined {
  return idForm.test(text) ? (text as ReleaseId) : undefined;
}

/**
 * The release that these outputs of a bundle are: the same for the same plan, so that a run after a crash
 * finds the directory that it began. Everything that a catalog records of an output counts, but for its time:
 * a release never changes, so that whatever would change its records makes it another one. `outputs` are
 * sorted by path. Pure.
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

/** The directory of a release, relative to its bundle path. Pure. */
export function releaseKey(id: ReleaseId): Key {
  return joinKey(releasesKey, id);
}

/** The bundle path, `.` for the root, and the release that a managed path is; null if it is none. Pure. */
export function releasePathOf(path: string): { bundlePath: string; id: ReleaseId } | null {
  const [, above, name = ''] = releasePathForm.exec(path) ?? [];
  const id = parseReleaseId(name);
  return id === undefined ? null : { bundlePath: above ?? '.', id };
}

/** Whether a key within a bundle path is a pointer, a release, or of a release. Pure. */
export function isOfReleases(key: string, channels: readonly string[] = []): boolean {
  const [first = '', second = ''] = key.split('/');
  if (first !== releasesKey)
    return first === currentLinkKey || key === currentObjectKey || channels.includes(first);
  return parseReleaseId(second) !== undefined;
}

/** The release that a pointer names; null if it names anything else. Pure. */
export function releaseAt(target: string): ReleaseId | null {
  const prefix = `${releasesKey}/`;
  const name = listedKey(target);
  return name.startsWith(prefix) ? (parseReleaseId(name.slice(prefix.length)) ?? null) : null;
}
