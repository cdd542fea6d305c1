/**
 * A publisher in a separate process, for tests that suspend and kill it. It publishes two files to a
 * directory, to SFTP or to S3. In the middle of the second file it prints `staging` and waits for a line on
 * stdin.
 */
import { once } from 'node:events';
import { systemClock } from '../../src/core/lib/clock.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import { publishBundle } from '../../src/core/publish/publish-bundle.ts';
import { localStorage } from '../../src/core/storage/local/local-storage.ts';
import type { S3Location } from '../../src/core/storage/s3/s3-location.ts';
import { s3Storage } from '../../src/core/storage/s3/s3-storage.ts';
import type { SftpLocation } from '../../src/core/storage/sftp/sftp-location.ts';
import { sftpStorage } from '../../src/core/storage/sftp/sftp-storage.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { type S3User, secretsOf } from '../services/radosgw.ts';
import { noSecrets } from '../services/sshd.ts';
import { bundleOf, bundlePath, contextWith, destinationOf, owner } from './world.ts';

const { root, s3, sftp, files, leaseTimes } = JSON.parse(process.argv[2] ?? '{}') as {
  root: string;
  s3?: { location: S3Location; user: S3User; partBytes: number };
  sftp?: SftpLocation;
  files: Record<string, string>;
  leaseTimes: {
    renewEveryMs: number;
    abortAfterMs: number;
    staleAfterMs: number;
    waitMs: number;
    pollEveryMs: number;
  };
};

/** Waits only once: a storage that has to create its staging directory again reads the body a second time. */
let going: Promise<unknown> | undefined;
const goOn = (): Promise<unknown> => {
  if (going === undefined) process.stdout.write('staging\n');
  return (going ??= once(process.stdin, 'data'));
};

const bundle = bundleOf(files);
const last = bundle.files.at(-1)!;
const original = last.body;
last.body = {
  size: original.size,
  async *open() {
    const chunks: Uint8Array[] = [];
    for await (const chunk of original.open()) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    const half = bytes.length >> 1;
    if (half > 0) yield bytes.subarray(0, half);
    await goOn();
    yield bytes.subarray(half);
  },
};

const storage = await open();
const result = await publishBundle(
  { ...contextWith(systemClock), leaseTimes },
  storage,
  {
    bundle,
    owner,
    destination: destinationOf('replacement'),
    destinationPath: bundlePath,
  },
  { dryRun: false, force: false },
);
process.stdout.write(`${JSON.stringify({ action: result.action, code: result.error?.code ?? null })}\n`);
process.stdin.destroy();
await storage.close();

async function open(): Promise<Storage> {
  if (sftp !== undefined)
    return sftpStorage(sftp, { clock: systemClock, log: silentLog, secrets: noSecrets });
  if (s3 === undefined) return localStorage(root);
  const { location, user, partBytes } = s3;
  return s3Storage(location, { clock: systemClock, log: silentLog, secrets: secretsOf(user), partBytes });
}
