import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { configuration, manifest, program, waybill, web } from './process.ts';

/** Help is written without Node.js's output stream, but must behave the same. */

const help = waybill(['--help']).stdout;
const command = `"${process.execPath}" "${program}"`;

t.test('help arrives in full through a full pipe', async (t) => {
  const fifo = path.join(t.testdir(), 'pipe');
  spawnSync('mkfifo', [fifo]);
  const reader = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
  const pipe = openSync(fifo, constants.O_WRONLY | constants.O_NONBLOCK);
  t.teardown(() => [reader, pipe].forEach((each) => closeSync(each)));
  const filling = Buffer.alloc(4096, '.');
  const filled = untilRefused(() => writeSync(pipe, filling));
  // Uses a fourth descriptor, because a child's first three are set to blocking mode.
  const stdio = ['ignore', 'ignore', 'inherit', pipe] as const;
  const child = spawn('bash', ['-c', `exec ${command} --help >&3`], { stdio: [...stdio] });
  const ended = once(child, 'exit');
  // Long enough to reach the full pipe.
  await new Promise((resolve) => setTimeout(resolve, 500));
  t.equal(child.exitCode, null, 'it waits until the pipe has space');
  let text = '';
  const room = Buffer.alloc(4096);
  const drain = (): number =>
    untilRefused(() => {
      const read = readSync(reader, room);
      text += room.toString('utf8', 0, read);
      return read;
    });
  const draining = setInterval(drain, 5);
  t.same(await ended, [0, null]);
  clearInterval(draining);
  drain();
  t.equal(text.slice(filled), help);
});

t.test('help succeeds if the reader closed the pipe, and fails on a full disk', async (t) => {
  const statusOf = (line: string): number | null =>
    spawnSync('bash', ['-o', 'pipefail', '-c', line], { stdio: 'ignore' }).status;
  t.equal(statusOf(`(sleep 0.3; exec ${command} --help) | true`), 0);
  t.equal(statusOf(`${command} --help > /dev/full`), 1);
  t.equal(statusOf(`${command} --help > /dev/null`), 0);
  t.equal(statusOf(`${command} --help >&-`), 0, 'no output at all');
});

t.test('names the reason if standard output cannot be written', async (t) => {
  const cwd = t.testdir({ site: { 'a.txt': 'a' } });
  for (const line of ['--help', 'publish site web', 'publish site web --format json', 'scene-map schema']) {
    const { status, stderr } = spawnSync('bash', ['-c', `${command} ${line} > /dev/full`], {
      cwd,
      encoding: 'utf8',
    });
    t.equal(status, 1, line);
    t.match(stderr, /error {2}standard output cannot be written: the disk is full\n/, line);
    t.equal(stderr.match(/standard output/g)?.length, 1, `${line}: once`);
  }
});

t.test('a usage error keeps its exit code without a reader', async (t) => {
  const line = `(sleep 0.3; exec ${command} no-such-command) 2>&1 | true`;
  t.equal(spawnSync('bash', ['-o', 'pipefail', '-c', line], { stdio: 'ignore' }).status, 2);
});

t.test('a publication is finished if its output cannot be written', async (t) => {
  const bundle = (created: string): Record<string, string> => ({
    'manifest.json': manifest(['a.txt'], created),
    'a.txt': 'a',
  });
  const cwd = t.testdir({
    // Each of these bundles causes a warning while the command is running.
    source: {
      a: bundle('2099-01-01T00:00:00Z'),
      b: bundle('2099-01-02T00:00:00Z'),
      c: bundle('2099-01-03T00:00:00Z'),
    },
    'c.yml': configuration([web]),
  });
  const statusOf = (streams: string): number | null =>
    spawnSync('bash', ['-o', 'pipefail', '-c', `(sleep 0.3; exec ${command} run -c c.yml) ${streams}`], {
      cwd,
      stdio: 'ignore',
    }).status;
  const published = (): string[] => readdirSync(path.join(cwd, 'web')).sort();
  for (const [streams, status] of [
    ['2>&1 | true', 0],
    ['> /dev/full 2>&1', 1],
  ] as const) {
    rmSync(path.join(cwd, 'web'), { recursive: true, force: true });
    t.equal(statusOf(streams), status, streams);
    t.same(published(), ['a', 'b', 'c'], streams);
    t.equal(waybill(['verify', '-c', 'c.yml'], { cwd }).status, 0, 'nothing is unfinished');
  }
  writeFileSync(path.join(cwd, 'source/c/manifest.json'), '{');
  t.equal(statusOf('2>&1 | true'), 1, 'a failure keeps its exit code');
});

/** The number of bytes that `step` read or wrote until it would block. */
function untilRefused(step: () => number): number {
  for (let sum = 0; ;)
    try {
      sum += step();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return sum;
      throw error;
    }
}
