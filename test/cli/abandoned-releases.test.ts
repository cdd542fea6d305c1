import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { configuration, document, manifest, program, waybill } from './process.ts';

/** `verify` of the built program on releases that a killed publication left unfinished. */

const preload = path.resolve('test/faults/kill-at-change.mjs');

interface State {
  pending: { started_at: string } | null;
}

t.test(
  'verify succeeds after a kill, and reports the abandoned release and when it is removed',
  async (t) => {
    const place = t.testdir({
      source: { one: {} },
      'c.yml': configuration([
        'id: web, backend: local, path: ./web, layout: releases, releases: {linger: 1h}',
      ]),
    });
    const write = (version: number): void => {
      writeFileSync(path.join(place, 'source/one/a.txt'), `version ${version}`);
      writeFileSync(
        path.join(place, 'source/one/manifest.json'),
        manifest(['a.txt'], `2026-11-20T00:00:0${version}Z`),
      );
    };
    const releases = path.join(place, 'web/one/releases');
    const pending = (): State['pending'][] =>
      readdirSync(releases)
        .map((id) => path.join(releases, id, '.publisher.json'))
        .filter((file) => existsSync(file))
        .map((file) => (JSON.parse(readFileSync(file, 'utf8')) as State).pending);
    write(1);
    t.equal(waybill(['run', '-c', 'c.yml'], { cwd: place }).status, 0);
    write(2);
    let kills = 0;
    while (!pending().some((attempt) => attempt !== null)) {
      kills += 1;
      const { signal } = spawnSync(process.execPath, ['--import', preload, program, 'run', '-c', 'c.yml'], {
        cwd: place,
        env: { ...process.env, KILL_BELOW: path.join(place, 'web'), KILL_AT: String(kills) },
      });
      t.equal(signal, 'SIGKILL', `killed before change ${kills}`);
    }
    write(3);
    t.equal(waybill(['run', '-c', 'c.yml'], { cwd: place }).status, 0);

    const [attempt] = pending().filter((each) => each !== null);
    const startedAt = attempt?.started_at ?? '';
    const removedAfter = new Date(Date.parse(startedAt) + 3_600_000).toISOString();
    const json = waybill(['verify', '-c', 'c.yml', '--format', 'json'], { cwd: place });
    t.equal(json.status, 0, json.stdout);
    const { clean, destinations } = document(t, json) as {
      clean: boolean;
      destinations: [{ paths: { interrupted: boolean; unfinished_release: unknown }[] }];
    };
    t.equal(clean, true);
    const unfinished = destinations[0].paths.flatMap((one) => one.unfinished_release ?? []);
    t.same(unfinished, [{ state: 'abandoned', started_at: startedAt, removed_after: removedAfter }]);
    t.notOk(destinations[0].paths.some(({ interrupted }) => interrupted));
    const text = waybill(['verify', '-c', 'c.yml'], { cwd: place });
    t.match(text, { status: 0, stdout: `the first run after ${removedAfter} removes it` });
    t.notMatch(text.stdout, /to finish it/);
  },
);
