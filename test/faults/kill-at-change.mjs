/**
 * Preloaded into a process (`node --import`). Sends SIGKILL to it right before its change number `KILL_AT`.
 * With `KILL_AT=0`, writes the names of the changes, such as `rename`, to `KILL_LIST`, one per line.
 *
 * A change is a call that changes the file system below `KILL_BELOW`, or data sent to the port `KILL_PORT`:
 * `ssh`, or the method of an HTTP request that changes something.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';
import process from 'node:process';

const { KILL_AT, KILL_BELOW, KILL_LIST, KILL_PORT } = process.env;
const changes = ['mkdir', 'link', 'rename', 'unlink', 'rmdir', 'rm', 'symlink', 'copyFile', 'truncate'];
const made = [];

function before(name, args) {
  const isBelow = (argument) => typeof argument === 'string' && plain(argument).startsWith(KILL_BELOW);
  if (KILL_BELOW !== undefined && args.some(isBelow)) count(name.replace(/Sync$/, ''));
}

function count(change) {
  made.push(change);
  if (made.length === Number(KILL_AT)) process.kill(process.pid, 'SIGKILL');
}

/** The path behind a path through an open directory. */
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

/** Whether a file is opened for writing, by a mode such as `w` or by flags. */
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

// The call with which a socket sends data, in one piece or in several.
const { _writeGeneric: send } = net.Socket.prototype;
net.Socket.prototype._writeGeneric = function watched(isVector, data, ...rest) {
  // A connecting socket calls it again once it is connected.
  if (!this.connecting && this.remotePort === Number(KILL_PORT)) {
    const text = String(isVector ? data[0]?.chunk : data);
    const [, method] = /^([A-Z]+) \S+ HTTP\/1.1\r\n/.exec(text) ?? [null, 'ssh'];
    if (method !== 'GET' && method !== 'HEAD') count(method);
  }
  return send.call(this, isVector, data, ...rest);
};

if (KILL_LIST !== undefined) {
  const { writeFileSync } = fs;
  process.on('exit', () => writeFileSync(KILL_LIST, made.join('\n')));
}
