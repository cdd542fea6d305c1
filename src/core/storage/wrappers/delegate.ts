import type { Storage } from '../storage.ts';

/** How each member is wrapped. The code does not compile if a member is missing here. */
const members: { readonly [Member in keyof Required<Storage>]: 'value' | 'call' | 'stream' } = {
  label: 'value',
  facts: 'value',
  stat: 'call',
  list: 'stream',
  read: 'stream',
  write: 'call',
  obstacleTo: 'call',
  remove: 'call',
  removeTree: 'call',
  close: 'call',
  renameKind: 'value',
  movesDirectories: 'value',
  rename: 'call',
  sync: 'call',
  readLink: 'call',
  replaceLink: 'call',
  largestKeptBytes: 'value',
  keep: 'call',
  putBack: 'call',
  duplicate: 'call',
  fixModes: 'call',
  localFiles: 'value',
  placeOf: 'value',
};

export interface Interceptor {
  /** Runs a call that returns a promise. The arguments are for information only. */
  call: <T>(name: string, args: readonly unknown[], run: () => Promise<T>) => Promise<T>;
  /** Runs a call that returns a stream. By default, runs it unchanged. */
  stream?: <T>(name: string, args: readonly unknown[], open: () => AsyncIterable<T>) => AsyncIterable<T>;
}

type Method = (...args: readonly unknown[]) => unknown;

/**
 * Wraps a storage so that each of its calls goes through `around`. Members in `changes` replace members of
 * the storage. The wrapper has the capabilities of the storage, so changing a missing member has no effect.
 */
export function intercept(
  storage: Storage,
  { call, stream = (_name, _args, open) => open() }: Interceptor,
  changes: Partial<Storage> = {},
): Storage {
  const wrap = (name: string, kind: string, method: Method): Method => {
    if (kind === 'value') return (...args) => method.call(storage, ...args);
    const run = kind === 'call' ? call : stream;
    return (...args) => run(name, args, () => method.call(storage, ...args) as never);
  };
  const wrapped = Object.entries<string>(members).map(([name, kind]): [string, unknown] => {
    const member: unknown = Reflect.get(storage, name);
    if (member !== undefined && name in changes) return [name, Reflect.get(changes, name)];
    return [name, typeof member === 'function' ? wrap(name, kind, member as Method) : member];
  });
  return Object.fromEntries(wrapped) as unknown as Storage;
}

/**
 * Returns a storage whose members are replaced by those in `changes`. A spread copy would lose the methods of
 * class instances.
 */
export function delegate(storage: Storage, changes: Partial<Storage>): Storage {
  return intercept(storage, { call: (_name, _args, run) => run() }, changes);
}
