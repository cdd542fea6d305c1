import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { loadConfig } from '../../src/core/config/load-config.ts';
import { localPlace, s3Place, sftpPlace, type StoragePlace } from '../faults/storage-places.ts';
import { configuration, waybill } from './process.ts';

/** Commands that only read a destination, or change existing files, do not create it. */

const site = ['-p', 'maps', '-d', 'site'];
const flat = ['-p', 'maps', '-d', 'flat'];

/** These acquired a lease, which created the directory of the destination. */
const withLease: readonly string[][] = [
  ['releases', 'rollback', ...site, '--path', 'a/b'],
  ['releases', 'resume', ...site, '--path', 'a/b'],
];
const others: readonly string[][] = [
  ['releases', 'rollback', ...site],
  ['releases', 'promote', ...site, '--path', 'a/b', '20260101T000000Z-00000000'],
  ['releases', 'drop', ...site, '--path', 'a/b', 'preview'],
  ['releases', 'tidy', ...site, '--path', 'a/b'],
  ['releases', 'tidy', ...site],
  ['releases', 'list', ...site],
  ['unpublish', 'a/b', ...site],
  ['unpublish', 'a/b', ...flat],
  ['promote', 'site', 'flat'],
  ['prune', '--apply', ...flat],
  ['reconcile-state', ...flat],
  ['verify', '--repair'],
  ['inspect'],
  ['inspect', '-p', 'maps', '--probe'],
  ['run', '--dry-run'],
];

t.test('a local destination', async (t) => {
  await eachCommand(t, localPlace(), [...withLease, ...others]);
});
t.test('a destination on SFTP', async (t) => eachCommand(t, await sftpPlace(t), withLease));
t.test('a destination on S3', async (t) => eachCommand(t, await s3Place(t), withLease));

async function eachCommand(
  t: Test,
  place: StoragePlace,
  commands: readonly (readonly string[])[],
): Promise<void> {
  const root = t.testdir({ source: {} });
  const destinations = [
    `id: site, ${place.settings('site', root)}, layout: releases`,
    `id: flat, ${place.settings('flat', root)}, retention: {prune: {enabled: true, keep_latest: 1}}`,
  ];
  const file = path.join(root, 'c.yml');
  writeFileSync(file, configuration(destinations));
  mkdirSync(path.join(root, 'home'));
  const { config } = await loadConfig(file, { home: root });
  for (const command of commands) {
    const name = command.join(' ');
    const ended = waybill([...command, '-c', file], { env: { ...place.env(root), HOME: `${root}/home` } });
    t.ok(ended.status !== null && ended.status <= 2, name);
    t.notMatch(ended.stderr, /unknown (?:option|command)|missing required|too many/, name);
    for (const { id, location } of config.pipelines[0]?.destinations ?? []) {
      t.notOk(existsSync(path.join(root, id)), `${name}: ${id}`);
      const storage = await place.open(location, { readOnly: true });
      for await (const { key } of storage.list('', { recursive: true })) t.fail(`${name}: ${id}: ${key}`);
      await storage.close();
    }
  }
}
