import { releaseDiff, releaseList, releaseSwitch, requireShape, shownRelease } from './answers.ts';
import type { ApiRequest, Connection } from './connection.ts';
import type { Release, ReleaseDiff, Releases, ReleaseSwitch } from './generated/api-types.ts';
import type { Shape } from './shape.ts';

/* Requests about the releases of a destination. */

/** A destination with `layout: releases`. */
export interface ReleasePlace {
  pipeline: string;
  destination: string;
  /** The bundle path. Default: all of them in a list, otherwise the only one that has releases. */
  path?: string | undefined;
}

export interface ActivateOptions {
  /** Roll back: later runs do not make the replaced release current again. Default: false, a promotion. */
  rollback?: boolean;
  /** Only report the change. Default: false. */
  dryRun?: boolean;
}

export async function listReleases(connection: Connection, place: ReleasePlace): Promise<Releases> {
  return requestReleases(connection, place, releaseList, {});
}

export async function showRelease(
  connection: Connection,
  place: ReleasePlace,
  release: string,
): Promise<Release> {
  return requestReleases(connection, place, shownRelease, { below: [release] });
}

export async function compareReleases(
  connection: Connection,
  place: ReleasePlace,
  from: string,
  to: string,
): Promise<ReleaseDiff> {
  return requestReleases(connection, place, releaseDiff, { below: [from, 'diff'], query: { to } });
}

/** Makes a release current. Repeating this changes nothing. */
export async function activateRelease(
  connection: Connection,
  place: ReleasePlace,
  release: string,
  { rollback = false, dryRun = false }: ActivateOptions = {},
): Promise<ReleaseSwitch> {
  const bytes = Buffer.from(JSON.stringify({ rollback }));
  return requestReleases(connection, place, releaseSwitch, {
    below: [release, 'activate'],
    query: { dry_run: String(dryRun) },
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-length': String(bytes.length) },
    body: async function* () {
      yield bytes;
    },
  });
}

async function requestReleases<T>(
  connection: Connection,
  { pipeline, destination, path }: ReleasePlace,
  shape: Shape<T>,
  { below = [], query, ...rest }: Omit<ApiRequest, 'path'> & { below?: readonly string[] },
): Promise<T> {
  const parts = ['pipelines', pipeline, 'destinations', destination, 'releases', ...below];
  const answer = await connection.requestJson({
    ...rest,
    path: `v1/${parts.map(encodeURIComponent).join('/')}`,
    query: { ...query, path },
  });
  return requireShape(answer, shape);
}
