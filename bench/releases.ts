import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { writeBundle } from './bundle-files.ts';
import { waybill } from './local.ts';
import { compare, type Contender, goal, print } from './measure.ts';

const files = 5_000;
const bytes = 8 << 10;

/**
 * Measures releases with 5,000 files in a local directory. A rollback is compared with just starting the
 * program and reading the configuration. A release with one changed file is compared with publishing the same
 * change in place.
 */
export async function releases(): Promise<boolean> {
  const root = mkdtempSync(path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-'));
  try {
    const bundle = path.join(root, 'source', 'bundle');
    writeBundle(bundle, files, bytes);
    const config = (name: string, layout: string): string[] => {
      const file = path.join(root, `${name}.yml`);
      const destination = `{id: out, backend: local, path: ./${name}, mapping: fixed, workflow: replacement, layout: ${layout}}`;
      const source = '{backend: local, path: ./source}';
      writeFileSync(file, `pipelines: [{id: bench, source: ${source}, destinations: [${destination}]}]\n`);
      return ['--config', file];
    };
    const [kept, inPlace] = [config('kept', 'releases'), config('in-place', 'in_place')];
    const run = (where: string[]): string[] => [...waybill, 'run', ...where];
    const back = [...waybill, 'releases', 'rollback', ...kept, '--pipeline', 'bench'];
    for (const command of [run(inPlace), run(kept)]) once(command);
    changeOne(bundle);
    once(run(kept));
    const forward = (): void => {
      once([...waybill, 'releases', 'resume', ...kept, '--pipeline', 'bench']);
      once(run(kept));
    };
    const contenders: Contender[] = [
      { name: 'waybill --help', command: [...waybill, '--help'] },
      { name: 'waybill config check', command: [...waybill, 'config', 'check', ...kept] },
      { name: 'waybill releases rollback', command: back, before: forward },
      { name: 'a release, 1 changed', command: run(kept), before: () => changeOne(bundle) },
      { name: 'in place, 1 changed', command: run(inPlace), before: () => changeOne(bundle) },
    ];
    return judge(compare(contenders));
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

function judge(summaries: ReturnType<typeof compare>): boolean {
  const [help, check, back, release, place] = summaries;
  print(`releases of ${files.toLocaleString('en')} files`, summaries);
  const times = (other: { seconds: number }): string => (back!.seconds / other.seconds).toFixed(2);
  const ratio = release!.seconds / place!.seconds;
  console.log(`a release takes ${ratio.toFixed(2)} times as long as the same in place`);
  console.log(`going back takes ${times(check!)} times as long as reading the configuration`);
  const text = `going back takes ${times(help!)} times as long as --help, which reads nothing; less than 2`;
  return goal(text, back!.seconds < 2 * help!.seconds);
}

function once(command: readonly string[]): void {
  const [program = '', ...args] = command;
  const { status, stderr } = spawnSync(program, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
}

function changeOne(bundle: string): void {
  const file = path.join(bundle, 'd7', 'file-7.bin');
  const content = randomBytes(bytes);
  writeFileSync(file, content);
  const manifest = path.join(bundle, 'manifest.json');
  const document = JSON.parse(readFileSync(manifest, 'utf8')) as {
    files: { path: string; digest: string }[];
  };
  const entry = document.files.find(({ path: name }) => name === 'd7/file-7.bin');
  if (entry !== undefined) entry.digest = `sha256:${createHash('sha256').update(content).digest('hex')}`;
  writeFileSync(manifest, JSON.stringify(document));
}
