import { spawnSync } from 'node:child_process';
import path from 'node:path';
import t from 'tap';
import { unsupportedReason } from '../../../src/cli/process/refuse-platform.ts';
import { nodeProgram } from '../../services/node-releases.ts';
import { configuration, program, web } from '../process.ts';

const here = { node: '20.19.0', platform: 'linux', arch: 'x64' } as const;

t.test('reports an unsupported platform and what to do', async (t) => {
  for (const node of ['20.19.0', '20.20.2', '22.0.0', '26.9.0'])
    t.equal(unsupportedReason({ ...here, node }), null, node);
  for (const node of ['20.18.3', '18.20.8', '0.12.18'])
    t.match(
      unsupportedReason({ ...here, node }),
      `waybill needs Node.js 20.19 or newer, and this is ${node}\nnext   `,
    );
  t.equal(unsupportedReason({ ...here, platform: 'darwin', arch: 'arm64' }), null);
  t.match(unsupportedReason({ ...here, platform: 'win32' }), /does not run on Windows.*\nnext {3}.*WSL 2/);
  for (const arch of ['arm', 'ia32'] as const)
    t.match(
      unsupportedReason({ ...here, arch }),
      `waybill needs a 64-bit system, and this Node.js is made for ${arch}`,
    );
});

t.test('both programs reject an old Node.js before anything else', async (t) => {
  const node = await nodeProgram('18.20.8');
  for (const file of ['dist/bundle/waybill.cjs', 'dist/cli/weather.js'])
    for (const args of [['--version'], ['serve', '--config', 'missing.yml']]) {
      const { status, stdout, stderr } = spawnSync(node, [path.resolve(file), ...args], { encoding: 'utf8' });
      t.same({ status, stdout }, { status: 2, stdout: '' }, file);
      t.equal(stderr, unsupportedReason({ ...here, node: '18.20.8' }), file);
    }
});

t.test('without LMDB for the platform, only the embedded queue is unavailable', async (t) => {
  const place = t.testdir({
    source: {},
    'c.yml': configuration(
      [web],
      'server: {queue: {driver: embedded, directory: ./queue}, http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}}',
    ),
  });
  const run = (...args: string[]): ReturnType<typeof spawnSync> =>
    spawnSync(process.execPath, [program, ...args, '-c', 'c.yml'], {
      cwd: place,
      encoding: 'utf8',
      // The variable from which LMDB's loader reads the processor type.
      env: { PATH: process.env['PATH'], HOME: place, npm_config_arch: 'riscv64' },
    });
  const { status, stderr } = run('serve');
  t.equal(status, 2);
  t.match(stderr, /there is no embedded queue on linux riscv64.*driver: memory/s);
  t.equal(run('run').status, 0);
});
