import type { Storage } from '../storage.ts';

/** How each member is wrapped. A member that is missing here does not compile. */
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
  /** Runs a call that resolves, with its arguments for information. */
  call: <T>(name: string, args: readonly unknown[], run: () => Promise<T>) => Promise<T>;
  /** Runs a call that yields. Default: runs it unchanged. */
  stream?: <T>(name: string, args: readonly unknown[], open: () => AsyncIterable<T>) => AsyncIterable<T>;
}

type Method = (...args: readonly unknown[]) => unknown;

/**
 * Wraps a storage so that each of its calls goes through `around`. The members in `changes` replace members
 * of the storage. The wrapper has the capabilities of the storage: a change of a missing member has no
 * effect.
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
 * A storage with other members in place of those in `changes`. A copy by spread would lose the methods of a
 * storage that is a class.
 */
export function delegate(storage: Storage, changes: Partial<Storage>): Storage {
  return intercept(storage, { call: (_name, _args, run) => run() }, changes);
}
