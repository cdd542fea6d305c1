import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { asOfNow } from '../examples/demo/recent-samples.ts';
import { digestOf } from '../src/core/lib/digest.ts';
import { document, waybill } from './cli/process.ts';
import { ensureInstalled } from './services/debian.ts';
import { stagedIn } from './support/staged.ts';

/** The bundle of `npm test`, which does the same and is not compiled again for each test. */
const program = fileURLToPath(new URL('../examples/demo/demo.ts', import.meta.url));

/** Starts the demo with its data in a directory of the test. */
function startDemo(
  t: Test,
  args: string[],
  demoProgram = program,
): { demo: ChildProcess; temporary: string; output: () => string } {
  const temporary = mkdtempSync(path.join(tmpdir(), 'demo-test-'));
  t.teardown(() => rmSync(temporary, { recursive: true, force: true }));
  const how = demoProgram.endsWith('.ts') ? ['--import=tsx', demoProgram] : [demoProgram];
  const demo = spawn(process.execPath, [...how, ...args], {
    env: { ...process.env, TMPDIR: temporary },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const chunks: Buffer[] = [];
  for (const stream of [demo.stdout, demo.stderr]) stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  t.teardown(() => demo.kill('SIGKILL'));
  return { demo, temporary, output: () => Buffer.concat(chunks).toString() };
}

async function exitCode(demo: ChildProcess): Promise<unknown> {
  const [code] = (await once(demo, 'close')) as unknown[];
  return code;
}

function demoDirectories(temporary: string): string[] {
  return readdirSync(temporary).filter((name) => name.startsWith('waybill-demo-'));
}

/** The content of a published bundle path matches its SHA256SUMS, the catalog and the bundle. */
function assertPublished(t: Test, directory: string): void {
  const lines = readFileSync(path.join(directory, 'SHA256SUMS'), 'utf8').trimEnd().split('\n');
  for (const line of lines) {
    const [hex, file] = line.split('  ') as [string, string];
    t.equal(digestOf(readFileSync(path.join(directory, file))), `sha256:${hex}`, file);
  }
  const catalog = JSON.parse(readFileSync(path.join(directory, '.publisher.json'), 'utf8')) as {
    outputs: unknown[];
    pending: unknown;
  };
  t.equal(catalog.pending, null);
  t.equal(catalog.outputs.length, lines.length + 1, 'each file in the list and the list itself are recorded');
}

t.test('npm run demo -- --once publishes everything, prints where, and exits with 0', async (t) => {
  // As in package.json, from source.
  const { demo, temporary, output } = startDemo(t, ['--once'], path.join('examples', 'demo', 'demo.ts'));
  t.equal(await exitCode(demo), 0, output());
  const [name = ''] = demoDirectories(temporary);
  const directory = path.join(temporary, name);
  for (const bundle of ['site/session-42', 'latest', 'library/session-42', 'library/session-41', 'newest'])
    assertPublished(t, path.join(directory, 'public', bundle));
  t.ok(existsSync(path.join(directory, 'public/latest/session-42.tar.gz')), 'with the archive');
  t.ok(existsSync(path.join(directory, 'public/latest/index.html')), 'with the index');
  t.match(
    stagedIn(path.join(directory, 'staging')),
    [/^upload-\w+$/],
    'staged files stay as long as the queue keeps the run',
  );

  for (const text of [directory, '202 Accepted', 'skip_same=3', 'preserve_relative', 'fixed', 'daemon.log'])
    t.match(output(), text);
  t.notOk(output().includes('\u001B'), 'no colors without a terminal');
});

t.test('every command that the demo shows works, and Ctrl-C ends it', async (t) => {
  await ensureInstalled('curl');
  const { demo, output } = startDemo(t, []);
  while (!output().includes('Ctrl-C ends')) await once(demo.stdout ?? demo, 'data');

  const commands = [...output().matchAll(/^ {2}\$ ((?:.*\\\n)*.*)$/gm)].map(([, command = '']) => command);
  t.equal(commands.length, 11, output());
  for (const command of commands) {
    const { status, stdout, stderr } = await bash(command);
    t.equal(status, 0, `${command}\n${stderr}`);
    if (command.startsWith('curl --data-binary')) t.match(JSON.parse(stdout), { status: 'accepted' });
    else if (command.includes('format=text')) t.match(stdout, /KNYC|OKX/);
    else if (command.includes('format=xml')) t.match(stdout, /<response [^]*<office>MKX/);
    else if (command.startsWith('curl')) t.match(JSON.parse(stdout), { status: 'succeeded' });
  }
  const page = /http:\S+\/index\.html/.exec(output())?.[0] ?? '';
  t.match(await (await fetch(page)).text(), 'weather/observation.json');

  demo.kill('SIGINT');
  t.equal(await exitCode(demo), 0, output());
  await t.rejects(fetch(page), { message: 'fetch failed' }, 'nothing listens any more');
});

t.test('a demo that does not publish everything exits with 1 and reports the cause', async (t) => {
  const root = t.testdir({ src: t.fixture('symlink', path.resolve('src')) });
  for (const directory of ['examples', 'templates', 'test/fixtures/weather'])
    cpSync(directory, path.join(root, directory), { recursive: true });
  writeFileSync(
    path.join(root, 'examples/demo/bundles/session-42/notes/recap.txt'),
    'not what the manifest says',
  );
  const { demo, output } = startDemo(t, ['--once'], path.join(root, 'examples/demo/demo.ts'));
  t.equal(await exitCode(demo), 1);
  t.match(output(), /failed.*422.*invalid_bundle.*notes\/recap\.txt/);
});

t.test('rejects an unknown argument before the demo begins', async (t) => {
  const { demo, temporary, output } = startDemo(t, ['--nonsense']);
  t.equal(await exitCode(demo), 2);
  t.match(output(), '--nonsense');
  const { demo: other, output: refusal } = startDemo(t, ['--port', '80800']);
  t.equal(await exitCode(other), 2);
  t.match(refusal(), '--port is not a port: 80800');
  t.same(demoDirectories(temporary), []);
});

t.test('the demo configuration publishes, then skips, and its checksums hold', async (t) => {
  // The paths of the configuration are relative to it, so a copy of it publishes into the test's directory.
  const root = t.testdir({
    examples: { demo: { bundles: t.fixture('symlink', path.resolve('examples/demo/bundles')) } },
  });
  const config = path.join(root, 'examples/demo/config.yml');
  copyFileSync('examples/demo/config.yml', config);
  const actionsOf = (format: string[]): unknown =>
    (
      document(t, waybill(['run', '--config', config, ...format])) as {
        pipelines: { destinations: { actions: { action: string }[] }[] }[];
      }
    ).pipelines.flatMap(({ destinations }) =>
      destinations.flatMap(({ actions }) => actions.map(({ action }) => action)),
    );
  t.same(actionsOf(['--format', 'json']), ['publish_new', 'publish_new', 'publish_new']);
  t.same(actionsOf(['--format', 'json']), ['skip_same', 'skip_same', 'skip_same']);
  t.match(waybill(['run', '--config', config]), { status: 0, stdout: /skip_same=3/ });
  for (const bundle of ['site/session-41', 'site/session-42', 'latest'])
    t.match(
      spawnSync('sha256sum', ['-c', 'SHA256SUMS'], { cwd: path.join(root, 'demo-run', bundle) }),
      { status: 0 },
      bundle,
    );
  t.match(waybill(['verify', '--config', config]), { status: 0, stdout: /clean/ });
});

t.test('shifts the times of the weather samples to now', (t) => {
  const sample = `{"validTimes": "2026-01-20T00:00:00+00:00/P8D", "updateTime": "2026-01-20T06:07:29+00:00", "name": "Today",
    "startTime": "2026-01-20T06:00:00-05:00"}, {"name": "Tuesday Night", "startTime": "2026-01-20T18:00:00-05:00"},
    "VALID": "202601201200", "/O.NEW.KLOT.SC.Y.0114.260120T1600Z-000000T0000Z/", "KNYC 201751Z AUTO"`;
  const now = new Date('2026-11-26T07:30:00Z');
  t.equal(
    asOfNow(sample, { from: '2026-01-20T18:00:00Z', by: 'days' }, now),
    `{"validTimes": "2026-11-25T00:00:00+00:00/P8D", "updateTime": "2026-11-26T07:20:00.000Z", "name": "Today",
    "startTime": "2026-11-25T06:00:00-05:00"}, {"name": "Wednesday Night", "startTime": "2026-11-25T18:00:00-05:00"},
    "VALID": "202611251200", "/O.NEW.KLOT.SC.Y.0114.261125T1600Z-000000T0000Z/", "KNYC 251751Z AUTO"`,
  );
  const observed = '"timestamp": "2026-01-20T17:51:00+00:00"';
  t.equal(
    asOfNow(observed, { from: '2026-01-20T17:51:00Z', by: 'minutes' }, now),
    '"timestamp": "2026-11-26T07:20:00+00:00"',
  );
  t.end();
});

async function bash(command: string): Promise<{ status: unknown; stdout: string; stderr: string }> {
  const child = spawn('bash', ['-c', command], { stdio: ['ignore', 'pipe', 'pipe'] });
  const texts = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk: Buffer) => (texts.stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (texts.stderr += chunk.toString()));
  return { status: await exitCode(child), ...texts };
}
