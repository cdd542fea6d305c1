import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import path from 'node:path';

/*
 * Records each change that a program and its children make to the file system below a directory. strace sees
 * system calls, so every library is covered, and so is the `sync` of coreutils.
 */

/** A file, a directory or a link, with any names. */
export interface Inode {
  kind: 'file' | 'directory' | 'link';
  /** The first name below the recorded directory. */
  name: string;
  mode: number;
  target: string;
  /** The content before the recording, which is on the disk. */
  bytes: Buffer;
  /** The names before the recording, which are on the disk. */
  entries: Map<string, Inode>;
}

/** A directory entry that a call creates, or removes (null). */
export interface NameChange {
  directory: Inode;
  name: string;
  inode: Inode | null;
}

export type Step =
  | { kind: 'data'; inode: Inode; at: number; bytes: Buffer; isSynced: boolean }
  | { kind: 'size'; inode: Inode; size: number }
  | { kind: 'mode'; inode: Inode; mode: number }
  /** The new name of a rename comes first. */
  | { kind: 'names'; names: NameChange[] }
  /** `inode` is null for the whole file system. `began` is the number of steps that were complete before. */
  | { kind: 'sync'; inode: Inode | null; call: string; began: number }
  /** Bytes that were sent to stdout or to a socket: a promise. */
  | { kind: 'sent'; text: string };

export interface Recording {
  /** Losses are simulated here, because catalogs and configurations have absolute paths. */
  directory: string;
  root: Inode;
  steps: Step[];
}

const changes =
  'open,openat,creat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate,copy_file_range,' +
  'sendfile,splice,mkdir,mkdirat,rmdir,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlink,' +
  'symlinkat,chmod,fchmod,fchmodat,fsync,fdatasync,sync_file_range,syncfs,sync,msync,io_uring_setup,' +
  'lseek,clone,clone3,fork,vfork,sendto,sendmsg';

/** The command that runs `command` and writes the calls to `file`. */
export function traced(file: string, command: readonly string[]): [string, string[]] {
  const strings = ['-y', '-xx', '-s', '100000000'];
  return ['strace', ['-f', '--seccomp-bpf', ...strings, '-e', `trace=${changes}`, '-o', file, ...command]];
}

/** Everything below `directory` before the recording. */
export function snapshot(directory: string, names = new Map<number, Inode>()): Inode {
  const inodeAt = (at: string, name: string): Inode => {
    const found = lstatSync(at);
    const kind = found.isDirectory() ? 'directory' : found.isSymbolicLink() ? 'link' : 'file';
    const inode = names.get(found.ino) ?? newInode(kind, name, found.mode & 0o7777);
    names.set(found.ino, inode);
    if (kind === 'link') inode.target = readlinkSync(at);
    if (kind === 'file' && found.isFile()) inode.bytes = readFileSync(at);
    if (kind === 'directory')
      for (const entry of readdirSync(at))
        if (!lstatSync(path.join(at, entry)).isSocket())
          inode.entries.set(entry, inodeAt(path.join(at, entry), path.join(name, entry)));
    return inode;
  };
  return inodeAt(directory, '');
}

function newInode(kind: Inode['kind'], name: string, mode: number): Inode {
  return { kind, name, mode, target: '', bytes: Buffer.alloc(0), entries: new Map() };
}

/** Runs a program to its end, and records it. Throws unless it exits with 0. */
export async function recordProgram(
  directory: string,
  file: string,
  command: readonly string[],
  env: Record<string, string> = {},
): Promise<Recording> {
  const root = snapshot(directory);
  const child = spawn(...traced(file, command), {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += String(chunk)));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}: ${said}`);
  return readRecording(root, directory, readFileSync(file, 'latin1'));
}

interface OpenFile {
  inode: Inode;
  offset: number;
  appends: boolean;
  isSynced: boolean;
}

/** The steps of a trace of strace. Throws for a change that it does not support. */
export function readRecording(root: Inode, directory: string, trace: string): Recording {
  const reader = new Reader(root, directory);
  const begun = new Map<string, { text: string; began: number }>();
  const lines = trace.split('\n');
  for (const line of lines) reader.learnThread(line);
  for (const line of lines) {
    const [, thread = '', text = ''] = /^(\d+) +(.*)$/.exec(line) ?? [];
    const unfinished = /^(.*) <unfinished \.\.\.>$/.exec(text)?.[1];
    if (unfinished !== undefined) {
      begun.set(thread, { text: unfinished, began: reader.steps.length });
      continue;
    }
    const rest = /^<\.\.\. \w+ resumed>(.*)$/.exec(text)?.[1];
    const first = rest === undefined ? undefined : begun.get(thread);
    reader.take(thread, `${first?.text ?? ''}${rest ?? text}`, first?.began ?? reader.steps.length);
  }
  return { directory, root, steps: reader.steps };
}

class Reader {
  readonly steps: Step[] = [];
  readonly #root: Inode;
  readonly #directory: string;
  readonly #parents = new Map<string, string>();
  readonly #open = new Map<string, OpenFile>();
  /** Directories and sizes as the program sees them at this step. */
  readonly #entries = new Map<Inode, Map<string, Inode>>();
  readonly #sizes = new Map<Inode, number>();

  constructor(root: Inode, directory: string) {
    this.#root = root;
    this.#directory = directory;
  }

  /** A thread shares the open files of the thread that created it. */
  learnThread(line: string): void {
    const [, parent, child] =
      /^(\d+) +(?:clone3?\(.*CLONE_THREAD.*|<\.\.\. clone3? resumed>.*CLONE_THREAD.*) = (\d+)$/.exec(line) ??
      [];
    if (parent !== undefined && child !== undefined) this.#parents.set(child, parent);
  }

  take(thread: string, text: string, began: number): void {
    const [, call, list, result, opened = ''] = /^(\w+)\((.*)\) += (-?\d+)(?:<(.*)>)?/s.exec(text) ?? [];
    if (call === undefined || list === undefined || Number(result) < 0) return;
    const args = list.split(/, (?![^[{]*[\]}])/);
    const process = this.#processOf(thread);
    if (call === 'openat' || call === 'open' || call === 'creat')
      this.#opened(`${process}:${result}`, this.#pathOf(args, call === 'openat'), args, decoded(opened));
    else if (/^(sync|syncfs)$/.test(call)) this.steps.push({ kind: 'sync', inode: null, call, began });
    else if (
      /^(lseek|send|write|pwrite|f|copy_file|splice)/.test(call) &&
      call !== 'fork' &&
      !call.endsWith('at')
    )
      this.#onFile(process, call, args, { result: Number(result), began });
    else if (/^(mkdir|rmdir|unlink|rename|link|symlink|chmod|fchmodat|truncate)/.test(call))
      this.#onNames(call, args);
    else if (call === 'io_uring_setup') throw new Error('io_uring hides calls from strace');
  }

  #processOf(thread: string): string {
    const parent = this.#parents.get(thread);
    return parent === undefined ? thread : this.#processOf(parent);
  }

  /** The directory and the last name of a path, or null outside of the recorded directory. */
  #placeOf(file: string): { directory: Inode; name: string } | null {
    const [, process, descriptor, below] = /^\/proc\/(\d+)\/fd\/(\d+)(\/.*)?$/s.exec(file) ?? [];
    let inode: Inode | undefined;
    let names: string[];
    if (process !== undefined) {
      inode = this.#open.get(`${process}:${descriptor}`)?.inode;
      names = (below ?? '').split('/').slice(1);
      if (inode !== undefined && names.length === 0) return { directory: inode, name: '' };
    } else {
      if (file !== this.#directory && !file.startsWith(`${this.#directory}/`)) return null;
      inode = this.#root;
      names = file.slice(this.#directory.length + 1).split('/');
    }
    for (const name of names.slice(0, -1)) inode = inode && this.#look(inode, name);
    return inode === undefined ? null : { directory: inode, name: names.at(-1) ?? '' };
  }

  #look(directory: Inode, name: string): Inode | undefined {
    return name === '' || name === '.' ? directory : this.#entriesOf(directory).get(name);
  }

  #entriesOf(directory: Inode): Map<string, Inode> {
    const known = this.#entries.get(directory) ?? new Map(directory.entries);
    this.#entries.set(directory, known);
    return known;
  }

  #pathOf(args: readonly string[], isRelative: boolean): string {
    const [base, name] = isRelative ? args : ['', ...args];
    const file = textOf(name ?? '');
    if (file.startsWith('/') || !isRelative) return file;
    return path.join(decoded(/<([^>]*)>/.exec(base ?? '')?.[1] ?? ''), file);
  }

  #opened(descriptor: string, file: string, args: readonly string[], real: string): void {
    this.#open.delete(descriptor);
    const place = this.#placeOf(file) ?? this.#placeOf(real);
    if (place === null) return;
    const flags = args.find((one) => one.includes('O_')) ?? '';
    let inode = this.#look(place.directory, place.name);
    if (inode === undefined) {
      inode = newInode('file', '', parseInt(args.at(-1) ?? '0', 8));
      this.#create(place, inode);
    } else if (flags.includes('O_TRUNC')) this.#resize(inode, 0);
    const [appends, isSynced] = [flags.includes('O_APPEND'), /O_D?SYNC/.test(flags)];
    this.#open.set(descriptor, { inode, offset: 0, appends, isSynced });
  }

  #create({ directory, name }: { directory: Inode; name: string }, inode: Inode): void {
    inode.name = path.join(directory.name, name);
    this.#name([{ directory, name, inode }]);
  }

  #name(names: NameChange[]): void {
    for (const { directory, name, inode } of names.toReversed())
      if (inode === null) this.#entriesOf(directory).delete(name);
      else this.#entriesOf(directory).set(name, inode);
    this.steps.push({ kind: 'names', names });
  }

  #resize(inode: Inode, size: number): void {
    this.#sizes.set(inode, size);
    this.steps.push({ kind: 'size', inode, size });
  }

  #onFile(
    process: string,
    call: string,
    args: readonly string[],
    { result, began }: { result: number; began: number },
  ): void {
    const [, descriptor = '', real = ''] = /^(\d+)<([^>]*)>/.exec(args[0] ?? '') ?? [];
    const place = decoded(real);
    const isBelow = place === this.#directory || place.startsWith(`${this.#directory}/`);
    const file = isBelow ? this.#open.get(`${process}:${descriptor}`) : undefined;
    if (!isBelow) {
      if (descriptor === '1' || place.startsWith('socket:'))
        this.steps.push({ kind: 'sent', text: bytesOf(args.join(', ')).toString('latin1') });
      return;
    }
    if (file === undefined) throw new Error(`${call} of ${place}, which was not seen to be opened`);
    const { inode } = file;
    if (call === 'fsync' || call === 'fdatasync') this.steps.push({ kind: 'sync', inode, call, began });
    else if (call === 'lseek') file.offset = result;
    else if (call === 'ftruncate') this.#resize(inode, Number(args[1]));
    else if (call === 'fchmod') this.steps.push({ kind: 'mode', inode, mode: parseInt(args[1] ?? '0', 8) });
    else if (call.includes('write')) {
      const size = this.#sizes.get(inode) ?? inode.bytes.length;
      const isPlaced = call.startsWith('p');
      const at = isPlaced
        ? Number(args.at(call === 'pwritev2' ? -2 : -1))
        : file.appends
          ? size
          : file.offset;
      if (!isPlaced) file.offset = at + result;
      this.#sizes.set(inode, Math.max(size, at + result));
      const bytes = bytesOf(args.slice(1).join(', ')).subarray(0, result);
      this.steps.push({ kind: 'data', inode, at, bytes, isSynced: file.isSynced });
    } else throw new Error(`${call} of ${place} is not recorded`);
  }

  #onNames(call: string, args: readonly string[]): void {
    const isRelative = /at2?$/.test(call);
    const isLink = call.startsWith('symlink');
    const paths = isLink ? args.slice(1) : args;
    const pairs = isRelative
      ? [paths.slice(0, 2), paths.slice(2, 4)]
      : [paths.slice(0, 1), paths.slice(1, 2)];
    const [first, second] = pairs.map((pair) => this.#placeOf(this.#pathOf(pair, isRelative)));
    if (!first) return;
    const inode = this.#look(first.directory, first.name);
    const mode = parseInt(args[isRelative ? 2 : 1] ?? '0', 8);
    if (isLink) this.#create(first, { ...newInode('link', '', 0o777), target: textOf(args[0] ?? '') });
    else if (call.startsWith('mkdir')) this.#create(first, newInode('directory', '', mode));
    else if (/^(rmdir|unlink)/.test(call)) this.#name([{ ...first, inode: null }]);
    else if (inode === undefined)
      return; // A socket, which has no meaning after a power loss.
    else if (call.includes('chmod')) this.steps.push({ kind: 'mode', inode, mode });
    else if (call === 'truncate') this.#resize(inode, Number(args[1]));
    else if (!second) throw new Error(`${call} leads out of the recorded directory`);
    // Otherwise, both names refer to one file, and the call changes nothing.
    else if (this.#look(second.directory, second.name) !== inode)
      this.#name([{ ...second, inode }, ...(call.startsWith('rename') ? [{ ...first, inode: null }] : [])]);
  }
}

function decoded(text: string): string {
  return Buffer.from(
    text.replaceAll(/\\x(..)/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    'latin1',
  ).toString();
}

function textOf(argument: string): string {
  return decoded(/"([^"]*)"/.exec(argument)?.[1] ?? '');
}

/** The bytes of all strings in the arguments. */
function bytesOf(args: string): Buffer {
  const strings = [...args.matchAll(/"([^"]*)"/g)].map(([, text = '']) => text);
  return Buffer.from(strings.join('').replaceAll('\\x', ''), 'hex');
}
