import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { WaybillError } from '../core/lib/errors.ts';
import { requireShape, runRecord, unexpectedAnswer } from './answers.ts';
import type { Connection } from './connection.ts';
import type { HttpResponse } from './exchange.ts';
import { connectionFailure } from './failures.ts';
import type { RunRecord } from './generated/api-types.ts';
import { fields, list, type Shape, text } from './shape.ts';

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
  throw unexpectedAnswer(answer.url, 'is not a stream of events');
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
  const { url } = answer;
  try {
    for await (const chunk of answer.read()) {
      parser.feed(decoder.decode(chunk, { stream: true }));
      for (const { event, id, data } of messages.splice(0)) {
        if (id !== undefined) place.lastId = id;
        const read = <T>(shape: Shape<T>): T => requireShape({ url, body: jsonIn(data, url) }, shape);
        if (event === 'end') return read(endEvent).reason;
        // Oldest first, which is the order of the events.
        if (event === 'snapshot') yield* read(snapshotEvent).runs.reverse();
        else if (event === 'run') yield read(runRecord);
      }
    }
  } catch (error) {
    // Errors thrown by the consumer of this generator do not get here.
    const failure = connectionFailure(error, url);
    if (!failure.retryable) throw failure;
  }
  return null;
}

const endEvent: Shape<{ reason: string }> = fields({ reason: text });
const snapshotEvent: Shape<{ runs: RunRecord[] }> = fields({ runs: list(runRecord) });

/** Parses the data of an event. A reconnect would not help if it is malformed, so that is not retryable. */
function jsonIn(data: string, url: URL): unknown {
  try {
    return JSON.parse(data);
  } catch (error) {
    throw unexpectedAnswer(url, 'has an event whose data is not JSON', error);
  }
}
