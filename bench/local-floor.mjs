/*
 * The least that a Node program has to do to publish a bundle of small files as the protocol says, and to
 * find that there is nothing to do: no configuration, no validation, no plan, no lease, no error handling.
 * What `bench/local.ts` shows beside waybill, as the limit.
 *
 * node bench/local-floor.mjs publish|nothing <bundle> <destination>
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';

const [, , work, bundle, destination] = process.argv;
const { files } = JSON.parse(fs.readFileSync(`${bundle}/manifest.json`, 'utf8'));
const state = `${destination}/.publisher.json`;

if (work === 'publish') publish();
else if (work === 'nothing') findNothingToDo();
else throw new Error('publish or nothing');

function publish() {
  const staging = `${destination}/.publisher.tmp`;
  fs.mkdirSync(staging, { recursive: true });
  const records = files.map(({ path: name, digest, size }) => ({ path: name, digest, size }));
  writeState(`${staging}/state-1`, { outputs: [], pending: records });
  const buffer = Buffer.allocUnsafe(1 << 16);
  files.forEach(({ path: name, digest }, index) => {
    const from = fs.openSync(`${bundle}/${name}`);
    const bytes = buffer.subarray(0, fs.readSync(from, buffer));
    fs.closeSync(from);
    if (`sha256:${createHash('sha256').update(bytes).digest('hex')}` !== digest) throw new Error(name);
    const to = fs.openSync(`${staging}/output-${index}`, 'w');
    fs.writeSync(to, bytes);
    fs.closeSync(to);
  });
  syncFileSystem();
  for (const directory of new Set(files.map(({ path: name }) => path.dirname(name))))
    fs.mkdirSync(`${destination}/${directory}`, { recursive: true });
  files.forEach(({ path: name }, index) =>
    fs.renameSync(`${staging}/output-${index}`, `${destination}/${name}`),
  );
  syncFileSystem();
  writeState(`${staging}/state-2`, { outputs: records, pending: null });
  fs.rmdirSync(staging);
}

function findNothingToDo() {
  const recorded = new Map(
    JSON.parse(fs.readFileSync(state, 'utf8')).outputs.map((each) => [each.path, each]),
  );
  for (const { path: name, digest, size } of files) {
    const record = recorded.get(name);
    const found = fs.lstatSync(`${bundle}/${name}`);
    if (!found.isFile() || found.size !== size || record.digest !== digest) throw new Error(name);
  }
}

function writeState(file, content) {
  const opened = fs.openSync(file, 'w');
  fs.writeSync(opened, JSON.stringify(content));
  fs.fsyncSync(opened);
  fs.closeSync(opened);
  fs.renameSync(file, state);
}

function syncFileSystem() {
  if (spawnSync('sync', ['--file-system', destination]).status !== 0) throw new Error('sync failed');
}
