/**
 * Preloaded into a process (`node --import`): sends it SIGKILL right before it changes the file system below
 * `KILL_BELOW` for the `KILL_AT`th time. With `KILL_AT=0` it writes the names of the changes, such as
 * `rename`, into `KILL_LIST`, one a line.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import process from 'node:process';

const { KILL_AT, KILL_BELOW, KILL_LIST } = process.env;
const changes = ['mkdir', 'link', 'rename', 'unlink', 'rmdir', 'rm', 'symlink', 'copyFile', 'truncate'];
const made = [];

function before(name, args) {
  if (!args.some((argument) => typeof argument === 'string' && plain(argument).startsWith(KILL_BELOW)))
    return;
  made.push(name.replace(/Sync$/, ''));
  if (made.length === Number(KILL_AT)) process.kill(process.pid, 'SIGKILL');
}

/** The path that a path through an open directory stands for. */
function plain(path) {
  const [, directory, rest] = /^(\/proc\/\d+\/fd\/\d+)(.*)$/s.exec(path) ?? [];
  return directory === undefined ? path : `${fs.readlinkSync(directory)}${rest}`;
}

function watch(holder, name, isChange) {
  const original = holder[name];
  if (typeof original !== 'function') return;
  holder[name] = function watched(...args) {
    if (isChange(args)) before(name, args);
    return original.apply(this, args);
  };
}

/** Whether a file is opened to be written: by a mode such as `w`, or by flags. */
function writes([, flags = 'r']) {
  return typeof flags === 'number' ? (flags & 3) !== fs.constants.O_RDONLY : flags !== 'r';
}

for (const name of changes)
  for (const [holder, called] of [
    [fs, name],
    [fs, `${name}Sync`],
    [fs.promises, name],
  ])
    watch(holder, called, () => true);
for (const [holder, called] of [
  [fs, 'open'],
  [fs, 'openSync'],
  [fs.promises, 'open'],
])
  watch(holder, called, writes);
for (const name of ['writeFile', 'writeFileSync', 'appendFile', 'appendFileSync'])
  watch(fs, name, () => true);
syncBuiltinESMExports();

if (KILL_LIST !== undefined) {
  const { writeFileSync } = fs;
  process.on('exit', () => writeFileSync(KILL_LIST, made.join('\n')));
}
