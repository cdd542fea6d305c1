import {
  inOrder,
  mostUndelivered,
  redeliveryRunning,
  type Kept,
  type UndeliveredEvents,
} from './undelivered.ts';

/*
 * The undelivered events of one process in memory. The embedded queue also writes them to disk.
 */

/** One undelivered event of one notifier. Plain data. */
export interface KeptFor extends Kept {
  notifierId: string;
}

export interface UndeliveredBookOptions {
  /** The events that earlier processes stored, in any order. Default: none. */
  left?: readonly KeptFor[];
  /** Called at each change, to make it persistent. null removes the event. */
  write?: (key: { notifierId: string; eventId: string }, kept: KeptFor | null) => void;
  /** Called when the oldest event of a notifier was dropped because of the limit. */
  onDropped?: (notifierId: string, count: number) => void;
}

/** All changes take effect synchronously, before the returned promises resolve. */
export function undeliveredBook(options: UndeliveredBookOptions = {}): UndeliveredEvents {
  const { left = [], write = () => undefined, onDropped = () => undefined } = options;
  /** By notifier, then by event. */
  const books = new Map<string, Map<string, KeptFor>>();
  const claimed = new Set<string>();
  let lastSeq = 0;

  const put = (kept: KeptFor): Map<string, KeptFor> => {
    const { notifierId, undelivered } = kept;
    const book = books.get(notifierId) ?? new Map<string, KeptFor>();
    books.set(notifierId, book);
    book.set(undelivered.event.id, kept);
    lastSeq = Math.max(lastSeq, kept.seq);
    return book;
  };
  const drop = (notifierId: string, eventId: string): void => {
    const book = books.get(notifierId);
    if (book?.delete(eventId) !== true) return;
    if (book.size === 0) books.delete(notifierId);
    write({ notifierId, eventId }, null);
  };
  for (const kept of left) put(kept);

  return {
    async keep(notifierId, undelivered) {
      const { id: eventId } = undelivered.event;
      const seq = books.get(notifierId)?.get(eventId)?.seq ?? lastSeq + 1;
      const kept: KeptFor = { notifierId, undelivered, seq };
      const book = put(kept);
      write({ notifierId, eventId }, kept);
      if (book.size <= mostUndelivered) return;
      const oldest = [...book.values()].reduce((first, one) => (inOrder(one, first) < 0 ? one : first));
      drop(notifierId, oldest.undelivered.event.id);
      onDropped(notifierId, 1);
    },
    list: async (notifierId) =>
      [...(books.get(notifierId)?.values() ?? [])].sort(inOrder).map(({ undelivered }) => undelivered),
    remove: async (notifierId, eventId) => drop(notifierId, eventId),
    counts: async () => new Map([...books].map(([id, { size }]) => [id, size])),
    async claim(notifierId) {
      if (claimed.has(notifierId)) throw redeliveryRunning(notifierId);
      claimed.add(notifierId);
      return { release: async () => void claimed.delete(notifierId) };
    },
  };
}
