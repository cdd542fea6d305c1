import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { WaybillError } from '../core/lib/errors.ts';
import type { Connection } from './connection.ts';
import type { Answer } from './exchange.ts';
import { connectionFailure } from './failures.ts';
import type { RunRecord } from './generated/api-types.ts';
import { parseRunRecord } from './runs.ts';

/** One run by its id, or all runs of these pipelines. Default: all of the token's pipelines. */
export type Followed = { runId: string } | { pipelines?: readonly string[] };

/** The timeout without data. The daemon sends something every 15 seconds. */
const silenceMs = 60_000;
const reconnectMs = 1000;

/**
 * Yields each followed run's record now and after every change. Reconnects and continues after a lost
 * connection, after the daemon stopped, and after it dropped a slow client. When following a single run, the
 * iteration ends when the run has finished. When following pipelines, it ends when the connection's `signal`
 * aborts, with its reason.
 */
export async function* followRuns(connection: Connection, followed: Followed): AsyncGenerator<RunRecord> {
  const place: Place = { lastId: null };
  for (;;) {
    const answer = await connection.ask({
      ...askFor(followed),
      headers: {
        accept: 'text/event-stream',
        ...(place.lastId === null ? {} : { 'last-event-id': place.lastId }),
      },
      idleMs: silenceMs,
    });
    // All events were received before the connection was lost.
    if (answer.status === 204) {
      answer.close();
      return;
    }
    requireEvents(answer);
    const end = yield* recordsOf(answer, place);
    if (end === 'finished') return;
    if (end === 'token_expired' && !connection.canRenew)
      throw new WaybillError('token_expired', 'the time of the token is over', { hint: 'get a new one' });
    await connection.clock.sleep(reconnectMs, connection.signal);
  }
}

interface Place {
  lastId: string | null;
}

function askFor(followed: Followed): { path: string; query?: Record<string, string | undefined> } {
  if ('runId' in followed) return { path: `runs/${encodeURIComponent(followed.runId)}/events` };
  return { path: 'v1/events', query: { pipeline: followed.pipelines?.join(',') } };
}

function requireEvents(answer: Answer): void {
  if (answer.headers['content-type']?.startsWith('text/event-stream') === true) return;
  answer.close();
  throw new WaybillError('unexpected_answer', 'the answer is no stream of events', {
    hint: 'check the URL: it must be the URL of the daemon, including its base path',
  });
}

/** Yields the records in a stream and returns why it ended; null if the connection was lost. */
async function* recordsOf(answer: Answer, place: Place): AsyncGenerator<RunRecord, string | null> {
  const messages: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => void messages.push(message) });
  const decoder = new TextDecoder();
  try {
    for await (const chunk of answer.read()) {
      parser.feed(decoder.decode(chunk, { stream: true }));
      for (const { event, id, data } of messages.splice(0)) {
        if (id !== undefined) place.lastId = id;
        if (event === 'end') return (JSON.parse(data) as { reason: string }).reason;
        // Oldest first, in event order.
        if (event === 'snapshot')
          yield* (JSON.parse(data) as { runs: unknown[] }).runs.reverse().map(parseRunRecord);
        else if (event === 'run') yield parseRunRecord(JSON.parse(data));
      }
    }
  } catch (error) {
    // Errors in the consumer of this generator do not arrive here.
    const failure = connectionFailure(error, new URL('http://daemon'));
    if (!failure.retryable) throw failure;
  }
  return null;
}
