import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { WaybillError } from '../core/lib/errors.ts';
import { isRecord } from '../core/lib/json-document.ts';
import type { Connection } from './connection.ts';
import type { HttpResponse } from './exchange.ts';
import { connectionFailure } from './failures.ts';
import type { RunRecord } from './generated/api-types.ts';
import { parseRunRecord } from './runs.ts';

/** A single run, or all runs of these pipelines. Default: all pipelines that the token is valid for. */
export type Followed = { runId: string } | { pipelines?: readonly string[] };

/** How long to wait for data before reconnecting. The daemon sends something every 15 seconds. */
const silenceMs = 60_000;
const reconnectMs = 1000;

/**
 * Yields the current record of each run, and then a new one after every change. It reconnects and continues
 * if the connection breaks, if the daemon restarts, or if the daemon disconnects a client that is too slow.
 * If this follows a single run, it ends when the run has finished. If it follows pipelines, it only ends when
 * the connection's `signal` aborts, and throws the signal's reason.
 */
export async function* followRuns(connection: Connection, followed: Followed): AsyncGenerator<RunRecord> {
  const place: StreamPosition = { lastId: null };
  for (;;) {
    const answer = await connection.request({
      ...eventsRequest(followed),
      headers: {
        accept: 'text/event-stream',
        ...(place.lastId === null ? {} : { 'last-event-id': place.lastId }),
      },
      idleMs: silenceMs,
    });
    // We have received all events, even though the connection was lost.
    if (answer.status === 204) {
      answer.close();
      return;
    }
    requireEvents(answer);
    const end = yield* recordsOf(answer, place);
    if (end === 'finished') return;
    if (end === 'token_expired' && !connection.canRenew)
      throw new WaybillError('token_expired', 'the token has expired', { hint: 'get a new one' });
    await connection.clock.sleep(reconnectMs, connection.signal);
  }
}

interface StreamPosition {
  lastId: string | null;
}

function eventsRequest(followed: Followed): { path: string; query?: Record<string, string | undefined> } {
  if ('runId' in followed) return { path: `runs/${encodeURIComponent(followed.runId)}/events` };
  return { path: 'v1/events', query: { pipeline: followed.pipelines?.join(',') } };
}

function requireEvents(answer: HttpResponse): void {
  if (answer.headers['content-type']?.startsWith('text/event-stream') === true) return;
  answer.close();
  throw new WaybillError('unexpected_answer', 'the response is not an event stream', {
    hint: 'check the URL: it must be the URL of the daemon, including its base path',
  });
}

/**
 * Yields the records in an event stream. Returns why the stream ended, or null if the connection was lost.
 */
async function* recordsOf(
  answer: HttpResponse,
  place: StreamPosition,
): AsyncGenerator<RunRecord, string | null> {
  const messages: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => void messages.push(message) });
  const decoder = new TextDecoder();
  try {
    for await (const chunk of answer.read()) {
      parser.feed(decoder.decode(chunk, { stream: true }));
      for (const { event, id, data } of messages.splice(0)) {
        if (id !== undefined) place.lastId = id;
        if (event === 'end') return String(recordIn(data)['reason']);
        // Oldest first, which is the order of the events.
        if (event === 'snapshot') yield* snapshotIn(data).reverse().map(parseRunRecord);
        else if (event === 'run') yield parseRunRecord(recordIn(data));
      }
    }
  } catch (error) {
    // Errors thrown by the consumer of this generator do not get here.
    const failure = connectionFailure(error, new URL('http://daemon'));
    if (!failure.retryable) throw failure;
  }
  return null;
}

function snapshotIn(data: string): unknown[] {
  const { runs } = recordIn(data);
  if (Array.isArray(runs)) return runs;
  throw malformed();
}

/** Parses the data of an event. A reconnect would not help if it is malformed, so that is not retryable. */
function recordIn(data: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (error) {
    throw malformed(error);
  }
  if (isRecord(value)) return value;
  throw malformed();
}

function malformed(cause?: unknown): WaybillError {
  return new WaybillError('unexpected_answer', 'the daemon sent an event whose data is not valid', {
    hint: 'check the URL and the version of the daemon',
    cause,
  });
}
