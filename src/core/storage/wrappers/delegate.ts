import type { Storage } from '../storage.ts';

/** How to wrap each member of a storage. If one is missing here, the code does not compile. */
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
  maxBackupBytes: 'value',
  backUp: 'call',
  restore: 'call',
  duplicate: 'call',
  fixModes: 'call',
  localFiles: 'value',
  placeOf: 'value',
};

interface Interceptor {
  /** Executes a call that returns a promise. The arguments are only for information. */
  call: <T>(name: string, args: readonly unknown[], run: () => Promise<T>) => Promise<T>;
  /** Executes a call that returns a stream. By default, nothing is added. */
  stream?: <T>(name: string, args: readonly unknown[], open: () => AsyncIterable<T>) => AsyncIterable<T>;
}

type AnyMethod = (...args: readonly unknown[]) => unknown;

/**
 * Wraps a storage so that all of its calls go through `around`. Members can also be replaced through
 * `changes`. The wrapper has the same capabilities as the storage, so if a member is missing, it cannot be
 * added.
 */
export function intercept(
  storage: Storage,
  { call, stream = (_name, _args, open) => open() }: Interceptor,
  changes: Partial<Storage> = {},
): Storage {
  const wrap = (name: string, kind: string, method: AnyMethod): AnyMethod => {
    if (kind === 'value') return (...args) => method.call(storage, ...args);
    const run = kind === 'call' ? call : stream;
    return (...args) => run(name, args, () => method.call(storage, ...args) as never);
  };
  const wrapped = Object.entries<string>(members).map(([name, kind]): [string, unknown] => {
    const member: unknown = Reflect.get(storage, name);
    if (member !== undefined && name in changes) return [name, Reflect.get(changes, name)];
    return [name, typeof member === 'function' ? wrap(name, kind, member as AnyMethod) : member];
  });
  return Object.fromEntries(wrapped) as unknown as Storage;
}

/**
 * Returns a copy of a storage in which some of the members are replaced. Simply spreading the storage would
 * lose its methods if it is an instance of a class.
 */
export function delegate(storage: Storage, changes: Partial<Storage>): Storage {
  return intercept(storage, { call: (_name, _args, run) => run() }, changes);
}
