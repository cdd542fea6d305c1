import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import type { Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { digestOf } from '../../src/core/lib/digest.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import { bytesBody } from '../../src/core/storage/body.ts';
import { listedKey as key } from '../../src/core/storage/key.ts';
import { s3Storage } from '../../src/core/storage/s3/s3-storage.ts';
import { sftpStorage } from '../../src/core/storage/sftp/sftp-storage.ts';
import { subdirectory } from '../../src/core/storage/wrappers/subdirectory.ts';
import { locationOf, type Radosgw, secretsOf } from '../services/radosgw.ts';
import { type Answer, bareRequests } from '../services/s3-requests.ts';
import { noSecrets, sftpLocationOf, type SftpServer } from '../services/sshd.ts';
import { memoryDirectory } from '../support/memory-directory.ts';
import { directoryWorld, type World } from './world.ts';

/*
 * Worlds on real servers. Each is a directory of one connection, or of one bucket, so opening it is not a
 * storage operation. They are copied and inspected without the driver.
 */

/** Directories in the memory of this machine, so that no case waits for a disk to sync. */
export async function sftpWorlds(t: Test, server: SftpServer): Promise<() => World> {
  const place = mkdtempSync(path.join(memoryDirectory(), 'waybill-sftp-worlds-'));
  t.teardown(() => rmSync(place, { recursive: true, force: true }));
  const options = { clock: systemClock, log: silentLog, secrets: noSecrets };
  const whole = await sftpStorage(sftpLocationOf(server, place), options);
  t.teardown(() => whole.close());
  let worlds = 0;
  const another = (): World & { directory: string } => {
    worlds += 1;
    const name = `world-${worlds}`;
    return directoryWorld(path.join(place, name), async () => subdirectory(whole, key(name)), another);
  };
  return another;
}

let bucketWorlds = 0;

export async function s3Worlds(
  t: Test,
  server: Radosgw,
  { bucket, partBytes }: { bucket: string; partBytes?: number },
): Promise<() => World> {
  const options = { clock: systemClock, log: silentLog, secrets: secretsOf(server.user) };
  const whole = await s3Storage(locationOf(server.endpoint, bucket), {
    ...options,
    ...(partBytes === undefined ? {} : { partBytes }),
  });
  const requests = bareRequests(server, bucket);
  t.teardown(async () => {
    requests.close();
    await whole.close();
  });

  const objectsOf = async (directory: string): Promise<[name: string, object: Answer][]> => {
    const keys = await requests.list(`${directory}/`);
    return Promise.all(
      keys.map(async (each): Promise<[string, Answer]> => [
        each.slice(directory.length + 1),
        await requests.get(each),
      ]),
    );
  };

  const put = async (place: string, { headers, body }: Answer): Promise<void> => {
    const { 'content-type': contentType = '', 'cache-control': cacheControl } = headers;
    const isInParts = headers.etag?.includes('-') === true;
    // Multipart objects are uploaded in parts again.
    if (isInParts)
      await whole.write(key(place), bytesBody(body), {
        mode: 'replace',
        digest: digestOf(body),
        headers: { contentType, ...(cacheControl === undefined ? {} : { cacheControl }) },
      });
    else await requests.put(place, body, requests.ownHeaders(headers));
  };

  const newWorld = (): World => {
    bucketWorlds += 1;
    const directory = `world-${bucketWorlds}`;
    let objects: Promise<[string, Answer][]> | undefined;
    return {
      name: 's3',
      open: async () => subdirectory(whole, key(directory)),
      files: async () =>
        new Map((await objectsOf(directory)).map(([name, { body }]) => [name, body.toString()])),
      async fork() {
        // A world is copied once it is prepared, and is not changed afterwards.
        objects ??= objectsOf(directory);
        const forked = `world-${bucketWorlds + 1}`;
        const world = newWorld();
        await Promise.all((await objects).map(([name, object]) => put(`${forked}/${name}`, object)));
        return world;
      },
    };
  };
  return newWorld;
}
