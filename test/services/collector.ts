import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';

/** A span from the OTLP request, with its attributes as a map. */
export interface CollectedSpan {
  name: string;
  traceId: string;
  spanId: string;
  /** Empty if it has none. */
  parentSpanId: string;
  /** Likewise. */
  traceState: string;
  kind: number;
  startedAt: bigint;
  endedAt: bigint;
  /** The value 2 means failure. */
  status: number;
  attributes: Record<string, unknown>;
  service: unknown;
}

export interface Collector {
  /** The base URL for `tracing.endpoint`. */
  url: string;
  spans: CollectedSpan[];
  requests: { path: string | undefined; headers: IncomingHttpHeaders }[];
  /** Answers with this status from now on. Default: 200. */
  answer: (status: number) => void;
  /**
   * Resolves to the spans once there is one of each of these names, or several if the list repeats a name.
   */
  until: (...names: string[]) => Promise<CollectedSpan[]>;
}

interface OtlpValue {
  stringValue?: string;
  intValue?: number | string;
  doubleValue?: number;
  boolValue?: boolean;
}
interface OtlpAttribute {
  key: string;
  value: OtlpValue;
}
interface OtlpRequest {
  resourceSpans: {
    resource: { attributes: OtlpAttribute[] };
    scopeSpans: {
      spans: {
        name: string;
        traceId: string;
        spanId: string;
        parentSpanId?: string;
        traceState?: string;
        kind: number;
        startTimeUnixNano: string;
        endTimeUnixNano: string;
        status: { code?: number };
        attributes: OtlpAttribute[];
      }[];
    }[];
  }[];
}

/** A server that accepts OTLP over HTTP in JSON, like a collector, and stores the spans. */
export async function startCollector(t: Pick<Test, 'teardown'>): Promise<Collector> {
  const waiting = new Set<() => void>();
  let status = 200;
  const collector: Collector = {
    url: '',
    spans: [],
    requests: [],
    answer: (next) => (status = next),
    until: (...names) =>
      new Promise((resolve) => {
        const look = (): void => {
          const has = (name: string): boolean =>
            collector.spans.filter((span) => span.name === name).length >=
            names.filter((one) => one === name).length;
          if (!names.every(has)) return;
          waiting.delete(look);
          resolve([...collector.spans]);
        };
        waiting.add(look);
        look();
      }),
  };
  const server = createServer((request, response) => {
    void (async () => {
      let body = '';
      for await (const chunk of request.setEncoding('utf8')) body += chunk as string;
      collector.requests.push({ path: request.url, headers: request.headers });
      if (status === 200) collector.spans.push(...spansOf(JSON.parse(body) as OtlpRequest));
      response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
      for (const look of waiting) look();
    })();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  collector.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return collector;
}

function spansOf({ resourceSpans }: OtlpRequest): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        name: span.name,
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId ?? '',
        traceState: span.traceState ?? '',
        kind: span.kind,
        startedAt: BigInt(span.startTimeUnixNano),
        endedAt: BigInt(span.endTimeUnixNano),
        status: span.status.code ?? 0,
        attributes: mapOf(span.attributes),
        service: mapOf(resource.attributes)['service.name'],
      })),
    ),
  );
}

function mapOf(attributes: readonly OtlpAttribute[]): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      value.stringValue ?? value.intValue ?? value.doubleValue ?? value.boolValue,
    ]),
  );
}
