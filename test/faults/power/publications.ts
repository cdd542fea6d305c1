import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import type { Test } from 'tap';
import { type Clock, systemClock } from '../../../src/core/lib/clock.ts';
import { verify } from '../../../src/core/maintain/verify.ts';
import { localStorage } from '../../../src/core/storage/local/local-storage.ts';
import {
  commandsAt,
  layOut,
  type Place,
  program,
  publishHere,
  versionRead,
  writeBundle,
  wrongAfterKill,
} from '../built-program.ts';
import { allRemains, type Protocol } from './losses.ts';
import { recordProgram } from './record.ts';

/*
 * Publications, rollbacks and unpublications. After the command has reported success, readers see its result
 * and the catalog matches. Before, readers of releases see the old or the new version, and in either layout
 * the next run completes without force. Foreign files are unchanged.
 */

interface Command {
  name: string;
  layout: Place['layout'];
  verb: 'run' | 'rollback' | 'unpublish';
  /** The version that was published before. */
  versions: number;
  files: number;
}

const commands: readonly Command[] = [
  { name: 'a first publication', layout: 'in_place', verb: 'run', versions: 0, files: 5 },
  { name: 'a replacement in place', layout: 'in_place', verb: 'run', versions: 2, files: 5 },
  { name: 'a publication of many files', layout: 'in_place', verb: 'run', versions: 0, files: 40 },
  { name: 'a removal', layout: 'in_place', verb: 'unpublish', versions: 1, files: 5 },
  { name: 'a first release', layout: 'releases', verb: 'run', versions: 0, files: 5 },
  { name: 'a release', layout: 'releases', verb: 'run', versions: 3, files: 5 },
  { name: 'a rollback', layout: 'releases', verb: 'rollback', versions: 2, files: 5 },
];

export function publications(t: Test): Protocol[] {
  return commands.map((command) => ({
    name: command.name,
    record: async (trace) => {
      const place = layOut(t, command.layout, command.files);
      for (let version = 1; version <= command.versions; version += 1) {
        writeVersion(place, version);
        const { error } = await publishHere(place);
        if (error !== null) throw new Error(`${error.code}: ${error.message}`);
        if (version === 1 && command.verb !== 'unpublish')
          writeFileSync(path.join(place.site, notOurs), notOurs);
      }
      if (command.verb === 'run') writeVersion(place, command.versions + 1);
      const args = commandsAt(place)[command.verb];
      return recordProgram(path.dirname(place.config), trace, [process.execPath, program, ...args]);
    },
    remains: allRemains,
    promise: reported,
    // Syncing the whole file system covers the new directory and the outputs.
    needs: command.files < 40 ? /./ : /^(?!fsync (\.|.*output-N)$)/,
    wrong: (root, promises) =>
      wrongAfterLoss(
        root,
        command,
        promises.some((text) => reported.test(text)),
      ),
  }));
}

/** Each version has its own directory with pages and other files, so that it does not move whole. */
function writeVersion(place: Place, version: number): void {
  writeBundle(place, version);
  const manifest = path.join(place.source, 'manifest.json');
  const bundle = JSON.parse(readFileSync(manifest, 'utf8')) as { files: string[] };
  for (const name of ['index.html', 'data.json']) {
    const file = `new-${version}/deep/${name}`;
    mkdirSync(path.dirname(path.join(place.source, file)), { recursive: true });
    writeFileSync(path.join(place.source, file), file);
    bundle.files.push(file);
  }
  writeFileSync(manifest, JSON.stringify(bundle));
}

/** A run waits only for another publisher, and none is alive after a power loss. */
const impatient: Clock = {
  ...systemClock,
  sleep: () => Promise.reject(new Error('the next run waits for the lock of a dead publisher')),
};

/** The last line of each command. */
const reported = /^(published 1|done |rolled back )/;
const notOurs = 'not-ours.txt';

async function wrongAfterLoss(root: string, command: Command, isDone: boolean): Promise<string[]> {
  const { layout, files, verb, versions } = command;
  const config = path.join(root, 'config.yml');
  const place: Place = {
    site: path.join(root, 'out'),
    source: path.join(root, 'source/bundle'),
    config,
    layout,
    files,
  };
  const wrong: string[] = [];
  const before = versions === 0 ? null : `version ${versions}`;
  const after =
    verb === 'run' ? `version ${versions + 1}` : verb === 'rollback' ? `version ${versions - 1}` : null;
  if (isDone || layout === 'releases') {
    const read = after === null && layout === 'in_place' ? removed(place) : versionRead(place);
    if (read !== after && (isDone || read !== before)) wrong.push(`readers have ${String(read)}`);
  }
  if (hasCommitted(place.site)) {
    const [report] = await verify(await localStorage(place.site), { concurrency: 8 });
    if ((report?.differing.length ?? 0) > 0)
      wrong.push(`committed, and ${JSON.stringify(report?.differing)}`);
  } else if (isDone && layout === 'in_place' && verb === 'run') wrong.push('the catalog is not committed');
  if (verb !== 'run') writeVersion(place, versions + 1);
  else if (isDone) {
    const { action, reason } = await publishHere(place, impatient);
    if (action !== 'skip_same') wrong.push(`the same bundle is published again: ${reason?.message}`);
  }
  wrong.push(...(await wrongAfterKill(place, versions + 1, impatient)));
  const file = path.join(place.site, notOurs);
  if (versions > 0 && verb !== 'unpublish' && !(existsSync(file) && readFileSync(file, 'utf8') === notOurs))
    wrong.push(`${notOurs} was changed`);
  return wrong;
}

/** Whether everything that the catalog lists is published. */
function hasCommitted(site: string): boolean {
  const catalog = path.join(site, '.publisher.json');
  return (
    existsSync(catalog) &&
    (JSON.parse(readFileSync(catalog, 'utf8')) as { pending: unknown }).pending === null
  );
}

/** null if no file of a publication exists any more. */
function removed({ site }: Place): string | null {
  const left = existsSync(site)
    ? readdirSync(site).filter((name) => !/^\.publisher\.(lock|tmp)$/.test(name))
    : [];
  return left.length === 0 ? null : left.join(', ');
}
