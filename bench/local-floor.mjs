/*
 * Does only what is absolutely necessary to publish a bundle of small files according to the protocol, to
 * publish a change, or to find out that nothing has changed. It has no configuration, validation, plan, lease
 * or error handling. `bench/local.ts` and `bench/incremental.ts` use it to show how fast a Node.js program
 * could be at best.
 *
 * node bench/local-floor.mjs publish|change|nothing <bundle> <destination>
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';

const [, , work, bundle, destination] = process.argv;
const { files } = JSON.parse(fs.readFileSync(`${bundle}/manifest.json`, 'utf8'));
const state = `${destination}/.publisher.json`;

if (work === 'publish') publish(files);
else if (work === 'change') publish(changed());
else if (work === 'nothing') findNothingToDo();
else throw new Error('publish, change or nothing');

/** Replaces files. Before and after that, writes a state that lists all files. */
function publish(writes) {
  const staging = `${destination}/.publisher.tmp`;
  fs.mkdirSync(staging, { recursive: true });
  const records = files.map(({ path: name, digest, size }) => ({ path: name, digest, size }));
  writeState(`${staging}/state-1`, { outputs: [], pending: records });
  const buffer = Buffer.allocUnsafe(1 << 16);
  writes.forEach(({ path: name, digest }, index) => {
    const from = fs.openSync(`${bundle}/${name}`);
    const bytes = buffer.subarray(0, fs.readSync(from, buffer));
    fs.closeSync(from);
    if (`sha256:${createHash('sha256').update(bytes).digest('hex')}` !== digest) throw new Error(name);
    const to = fs.openSync(`${staging}/output-${index}`, 'w');
    fs.writeSync(to, bytes);
    fs.closeSync(to);
  });
  sync(writes.map((_, index) => `${staging}/output-${index}`));
  const directories = [...new Set(writes.map(({ path: name }) => path.dirname(`${destination}/${name}`)))];
  for (const directory of directories) fs.mkdirSync(directory, { recursive: true });
  writes.forEach(({ path: name }, index) =>
    fs.renameSync(`${staging}/output-${index}`, `${destination}/${name}`),
  );
  sync(directories);
  writeState(`${staging}/state-2`, { outputs: records, pending: null });
  fs.rmdirSync(staging);
}

/**
 * Returns the files whose digest is not the one in the state. All files must exist at both the source and the
 * destination.
 */
function changed() {
  const recorded = recordedFiles();
  return files.filter(({ path: name, digest, size }) => {
    for (const root of [bundle, destination]) {
      const found = fs.lstatSync(`${root}/${name}`);
      if (!found.isFile() || found.size !== size) throw new Error(name);
    }
    return recorded.get(name).digest !== digest;
  });
}

function findNothingToDo() {
  const recorded = recordedFiles();
  for (const { path: name, digest, size } of files) {
    const record = recorded.get(name);
    const found = fs.lstatSync(`${bundle}/${name}`);
    if (!found.isFile() || found.size !== size || record.digest !== digest) throw new Error(name);
  }
}

function recordedFiles() {
  return new Map(JSON.parse(fs.readFileSync(state, 'utf8')).outputs.map((each) => [each.path, each]));
}

function writeState(file, content) {
  fs.writeFileSync(file, JSON.stringify(content));
  sync([file]);
  fs.renameSync(file, state);
}

/** Syncs files to disk. If there are many, syncs the whole file system. */
function sync(names) {
  if (names.length > 64) {
    if (spawnSync('sync', ['--file-system', destination]).status !== 0) throw new Error('sync failed');
    return;
  }
  for (const name of names) {
    const opened = fs.openSync(name);
    fs.fsyncSync(opened);
    fs.closeSync(opened);
  }
}
