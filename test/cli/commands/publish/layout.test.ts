import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { configuration, document, type Ended, manifest, waybill } from '../../process.ts';

/** Changes the layout of a destination as an operator does. */

const inPlace = 'id: site, backend: local, path: ./site, mapping: fixed, workflow: replacement';
const named = ['-p', 'maps', '-d', 'site'];

interface Place {
  at: (...names: string[]) => string;
  run: (...args: string[]) => Ended;
  /** Sets how the destination is published from now on. */
  say: (destination: string) => void;
  /** Writes the n-th version of the bundle to the source. */
  write: (n: number) => void;
  /** The page as readers of a directory see it. */
  page: (...directory: string[]) => string;
}

function layOut(t: Test): Place {
  const base = t.testdir({ source: { maps: {} }, 'c.yml': configuration([inPlace]) });
  const at = (...names: string[]): string => path.join(base, ...names);
  return {
    at,
    run: (...args) => waybill([...args, '-c', at('c.yml')]),
    say: (destination) => writeFileSync(at('c.yml'), configuration([destination])),
    write(n) {
      rmSync(at('source', 'maps'), { recursive: true, force: true });
      mkdirSync(at('source', 'maps'));
      writeFileSync(at('source', 'maps', 'index.html'), `version ${n}`);
      writeFileSync(at('source', 'maps', 'same.css'), 'body {}');
      writeFileSync(
        at('source', 'maps', 'manifest.json'),
        manifest(['index.html', 'same.css'], `2026-11-2${n}T00:00:00Z`),
      );
    },
    page: (...directory) => readFileSync(at('site', ...directory, 'index.html'), 'utf8'),
  };
}

const isThere = 'target=.: the layout';
const served = 'have it served from "current"';
const left = 'then remove the files that were published in place with waybill unpublish --layout in_place .';

t.test('converts from in place to releases and back', async (t) => {
  const { at, run, say, write, page } = layOut(t);
  write(1);
  t.equal(run('run').status, 0);
  say(`${inPlace}, layout: releases`);
  write(2);
  const dry = run('run', '--dry-run');
  t.equal(dry.status, 0);
  t.ok(dry.stderr.includes(`${isThere} would change: ${served}, ${left}`), dry.stderr);
  t.notOk(existsSync(at('site', 'releases')));

  const done = run('run');
  t.equal(done.status, 0, done.stderr);
  t.ok(done.stderr.includes(`${isThere} has changed: ${served}, ${left}`), done.stderr);
  t.same([page(), page('current')], ['version 1', 'version 2'], 'both kinds of readers find their files');
  t.equal(readdirSync(at('site', 'releases')).length, 2);
  const again = document(t, run('run', '--format', 'json'));
  t.match(again, { pipelines: [{ destinations: [{ actions: [{ action: 'skip_same' }] }] }] });
  t.notMatch(JSON.stringify(again), /layout_changed/, 'it is reported once');
  t.match(document(t, run('inspect', '-p', 'maps', '--format', 'json')), {
    destinations: [{ targets: [{ release: /^20261122T/, state: 'valid' }] }],
  });
  t.match(document(t, run('verify', '--format', 'json')), { clean: true });

  t.equal(run('releases', 'rollback', ...named).status, 0);
  t.equal(page('current'), 'version 1', 'in-place content can be restored by a rollback');
  t.equal(
    run('releases', 'promote', readdirSync(at('site', 'releases')).sort()[1] as string, ...named).status,
    0,
  );

  const unsaid = run('unpublish', '.', ...named);
  t.match(unsaid, { status: 2, stderr: /published in place and as releases; nothing was removed/ });
  t.match(run('unpublish', '.', ...named, '--layout', 'sideways'), {
    ...{ status: 2, stderr: /--layout: "sideways" is not one of in_place, releases/ },
  });
  const down = run('unpublish', '.', ...named, '--layout', 'in_place');
  t.match(down, { status: 0, stdout: /2 outputs .* removed/ });
  t.same([existsSync(at('site', 'index.html')), page('current')], [false, 'version 2']);
  t.match(run('unpublish', '.', ...named, '--layout', 'in_place'), {
    ...{ status: 2, stderr: /the destination root is not published with `layout: in_place`/ },
  });
  write(3);
  t.equal(run('run').status, 0);
  t.equal(page('current'), 'version 3');
});

t.test('from releases to in place', async (t) => {
  const { at, run, say, write, page } = layOut(t);
  say(`${inPlace}, layout: releases`);
  write(1);
  t.equal(run('run').status, 0);
  say(inPlace);
  write(2);
  const own = 'have it served from the destination root itself';
  const old = 'then remove its releases with waybill unpublish --layout releases .';
  const dry = run('run', '--dry-run');
  t.ok(dry.stderr.includes(`${isThere} would change: ${own}, ${old}`), dry.stderr);
  t.notOk(existsSync(at('site', 'index.html')));
  const done = run('run');
  t.equal(done.status, 0, done.stderr);
  t.ok(done.stderr.includes(`${isThere} has changed: ${own}, ${old}`), done.stderr);
  t.same([page(), page('current')], ['version 2', 'version 1']);
  t.match(document(t, run('verify', '--format', 'json')), { clean: true });
  t.equal(run('unpublish', '.', ...named, '--layout', 'releases').status, 0);
  t.same(readdirSync(at('site')).sort(), ['.publisher.json', 'index.html', 'same.css']);
  write(3);
  t.equal(run('run').status, 0);
  t.equal(page(), 'version 3');
});

t.test('without a new bundle, only the layout changes', async (t) => {
  const { run, say, write, page } = layOut(t);
  write(1);
  t.equal(run('run').status, 0);
  say(`${inPlace}, layout: releases`);
  const done = document(t, run('run', '--format', 'json'));
  t.match(done, {
    counters: { replace_catalog: 1 },
    pipelines: [
      {
        destinations: [
          {
            warnings: [{ code: 'fixed_bundle_selected' }, { code: 'layout_changed' }],
            actions: [{ action: 'replace_catalog', reason: { code: 'layout_changed' }, outputs_written: 0 }],
          },
        ],
      },
    ],
  });
  t.same([page(), page('current')], ['version 1', 'version 1']);
});
