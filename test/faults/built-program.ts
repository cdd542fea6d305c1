import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Test } from 'tap';

/** The built program, and a pipeline from a directory with one bundle to a directory. */
export const program = path.resolve('dist/cli/main.js');

export interface Place {
  site: string;
  /** The one bundle. */
  source: string;
  config: string;
  layout: 'in_place' | 'releases';
  /** How many files the bundle has. */
  files: number;
}

const releasesSetting = 'layout: releases, releases: {keep: 2, linger: 0s},';

export function layOut(t: Test, layout: Place['layout'], files: number): Place {
  const root = t.testdir({
    source: { bundle: {} },
    'config.yml': [
      'pipelines:',
      '  - id: maps',
      '    source: {backend: local, path: ./source}',
      '    destinations:',
      '      - {id: web, backend: local, path: ./out, mapping: fixed, workflow: replacement,',
      `         ${layout === 'releases' ? releasesSetting : ''} outputs: {checksums: true}}`,
      '',
    ].join('\n'),
  });
  return {
    site: path.join(root, 'out'),
    source: path.join(root, 'source', 'bundle'),
    config: path.join(root, 'config.yml'),
    layout,
    files,
  };
}

/** The commands that change what is published. */
export function commandsAt({ config }: Place): Record<'run' | 'rollback' | 'resume' | 'unpublish', string[]> {
  const where = ['--config', config];
  const named = [...where, '--pipeline', 'maps', '--destination', 'web'];
  return {
    run: ['run', ...where],
    rollback: ['releases', 'rollback', ...named],
    resume: ['releases', 'resume', ...named],
    unpublish: ['unpublish', '.', ...named],
  };
}

export function waybill(args: readonly string[], env: Record<string, string> = {}): SpawnSyncReturns<string> {
  return spawnSync(process.execPath, [program, ...args], {
    ...{ encoding: 'utf8', env: { ...process.env, ...env } },
  });
}

/** A third of the files say which version they are of; the others are the same in each. */
export function writeBundle({ source, files: count }: Place, version: number): void {
  const files = Array.from({ length: count }, (_, index) => {
    const name = `d${index % 4}/file-${index}`;
    mkdirSync(path.dirname(path.join(source, name)), { recursive: true });
    writeFileSync(path.join(source, name), index % 3 === 0 ? `version ${version}` : 'the same in each');
    return name;
  });
  const created = new Date(Date.parse('2026-11-20T00:00:00Z') + version * 1000).toISOString();
  writeFileSync(path.join(source, 'manifest.json'), JSON.stringify({ created, files }));
}

/** The one version that readers have; null if they have nothing. Throws if they have no whole one. */
export function versionRead({ site, layout, files }: Place): string | null {
  let read = site;
  if (layout === 'releases')
    try {
      read = path.join(site, readlinkSync(path.join(site, 'current')));
    } catch {
      return null;
    }
  const names = namesIn(read).filter((name) => path.basename(name).startsWith('file-'));
  const texts = new Set(names.map((name) => readFileSync(path.join(read, name), 'utf8')));
  texts.delete('the same in each');
  const [version, ...others] = texts;
  if (names.length !== files || version === undefined || others.length > 0)
    throw new Error(`readers have ${names.length} files of ${[...texts].join(', ')}`);
  return version;
}

/**
 * After a kill, `version` is what lies in the source: the next run publishes it without force, one more has
 * nothing to do, and neither leaves anything behind.
 */
export function checkRecovery(t: Test, place: Place, version: number, when: string): void {
  const { run } = commandsAt(place);
  const rerun = waybill(run);
  t.equal(rerun.status, 0, `${when}: the next run succeeds without force\n${rerun.stdout}${rerun.stderr}`);
  t.equal(versionRead(place), `version ${version}`, `${when}: its version is the current one`);
  t.match(waybill(run).stdout, /skip_same=1/, `${when}: one more run has nothing to do`);
  const left = namesIn(place.site).filter((name) => /\.publisher\.(tmp|lock)/.test(name));
  t.same(left, [], `${when}: nothing is left behind`);
  if (place.layout === 'in_place') return;
  const stored = readdirSync(path.join(place.site, 'releases'));
  t.ok(stored.length <= 3, `${when}: ${stored.length} releases are kept`);
}

function namesIn(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory, { recursive: true, encoding: 'utf8' }) : [];
}
