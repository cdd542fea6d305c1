import http from 'node:http';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';

export interface SentEvent {
  event: string;
  id: string | null;
  data: unknown;
}

/** A client of server-sent events that remembers everything it received. */
export interface EventClient {
  status: number;
  headers: http.IncomingHttpHeaders;
  /** Events with data, in order. */
  events: SentEvent[];
  /** Comments, and blocks without data. */
  others: string[];
  /** The value that an `EventSource` would send as `Last-Event-ID`. */
  lastId: () => string | null;
  /** Records of `run` events. */
  records: () => RunRecord[];
  /** Resolves once the condition is true. Checks it after each chunk. Rejects if the stream ends first. */
  until: (isSo: () => boolean) => Promise<void>;
  /** Resolves to the whole text when the daemon has ended the stream. */
  ended: Promise<string>;
  close: () => void;
}

/** Connects. Resolves when the head of the response has arrived. */
export function followEvents(
  url: string,
  { token, lastId = null }: { token?: string; lastId?: string | null } = {},
): Promise<EventClient> {
  const headers = {
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(lastId === null ? {} : { 'last-event-id': lastId }),
  };
  return new Promise((resolve, reject) => {
    const request = http.get(url, { headers, agent: false }, (response) =>
      resolve(readEvents(request, response, lastId)),
    );
    request.on('error', reject);
  });
}

function readEvents(
  request: http.ClientRequest,
  response: http.IncomingMessage,
  firstId: string | null,
): EventClient {
  const events: SentEvent[] = [];
  const others: string[] = [];
  const looks = new Set<() => void>();
  let [text, rest, lastId, isOver] = ['', '', firstId, false];
  response.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
    const blocks = (rest + chunk).split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const fields = new Map(block.split('\n').map((line) => fieldOf(line)));
      const [event = 'message', id, data] = ['event', 'id', 'data'].map((name) => fields.get(name));
      if (id !== undefined) lastId = id;
      if (data === undefined) others.push(block);
      else events.push({ event, id: id ?? null, data: JSON.parse(data) as unknown });
    }
    for (const look of looks) look();
  });
  const ended = new Promise<string>((resolve) => {
    response.on('close', () => {
      isOver = true;
      for (const look of looks) look();
      resolve(text);
    });
  });
  // Closing the connection ends the subscription.
  response.on('error', () => undefined);
  request.on('error', () => undefined);
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    events,
    others,
    lastId: () => lastId,
    records: () => events.filter(({ event }) => event === 'run').map(({ data }) => data as RunRecord),
    until: (isSo) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (isSo()) resolve();
          else if (isOver) reject(new Error(`the stream has ended: ${text.slice(-500)}`));
          else return;
          looks.delete(look);
        };
        looks.add(look);
        look();
      }),
    ended,
    close: () => void request.destroy(),
  };
}

function fieldOf(line: string): [string, string] {
  const colon = line.indexOf(':');
  return [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')];
}
