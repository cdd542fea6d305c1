import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The state of the service at one time of the day: documents by their path and query. */
export interface Moment {
  at: Date;
  documents: ReadonlyMap<string, string>;
}

export interface Asked {
  path: string;
  headers: IncomingHttpHeaders;
  status: number;
}

/** A copy of api.weather.gov and of SPC's site on loopback, with the same responses. */
export interface NwsServer {
  /** The base URL, without a slash at the end. */
  url: string;
  asked: Asked[];
  /** The maximum number of concurrent requests. */
  maxAtOnce(): number;
  show(moment: Moment): void;
  /** Responses that replace the next ones for a path, in order. */
  failNext(path: string, ...answers: ((response: ServerResponse) => unknown)[]): void;
  /** Called when a request arrives, before the response. */
  onRequest: ((path: string) => void) | null;
  close(): Promise<void>;
}

/** Answers with this status and these headers, without a document. */
export function refusing(
  status: number,
  headers: Record<string, string> = {},
  body = '',
): (response: ServerResponse) => void {
  return (response) => response.writeHead(status, headers).end(body);
}

export async function startNws(first: Moment): Promise<NwsServer> {
  let moment = first;
  /** The time at which each current document changed last. */
  let since = new Map<string, Date>();
  const failures = new Map<string, ((response: ServerResponse) => void)[]>();
  const asked: Asked[] = [];
  let [under, most] = [0, 0];
  const answer = (path: string, headers: IncomingHttpHeaders, response: ServerResponse): void => {
    const failure = failures.get(path)?.shift();
    if (failure !== undefined) {
      failure(response);
      return;
    }
    response.setHeader('date', moment.at.toUTCString());
    response.setHeader('cache-control', 'public, max-age=30, s-maxage=30');
    const text = moment.documents.get(path);
    if (text === undefined) {
      const problem = { title: 'Not Found', status: 404, detail: `'${path}' is not a valid resource path` };
      return void response
        .writeHead(404, { 'content-type': 'application/problem+json' })
        .end(JSON.stringify(problem));
    }
    const etag = `"${createHash('sha256').update(text).digest('hex').slice(0, 16)}"`;
    const changed = (since.get(path) ?? moment.at).toUTCString();
    // RFC 9110, 13.2.2: the date counts only if no tag was sent.
    const isKnown =
      headers['if-none-match'] === undefined
        ? headers['if-modified-since'] === changed
        : headers['if-none-match'] === etag;
    // Like the recorded responses: products have no date, and the API sends no tags.
    const validators: Record<string, string> = path.includes('/products')
      ? { etag }
      : { 'last-modified': changed };
    if (isKnown) return void response.writeHead(304, validators).end();
    response.writeHead(200, { 'content-type': 'application/geo+json', ...validators }).end(text);
  };
  const server = createServer((request, response) => {
    const path = request.url ?? '';
    under += 1;
    most = Math.max(most, under);
    response.on('close', () => (under -= 1));
    const record: Asked = { path, headers: request.headers, status: 0 };
    asked.push(record);
    self.onRequest?.(path);
    answer(path, request.headers, response);
    record.status = response.statusCode;
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const self: NwsServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    maxAtOnce: () => most,
    show(next) {
      const before = moment.documents;
      since = new Map(
        [...next.documents].map(([path, text]) => [
          path,
          before.get(path) === text ? (since.get(path) ?? moment.at) : next.at,
        ]),
      );
      moment = next;
    },
    failNext: (path, ...answers) => void failures.set(path, answers),
    onRequest: null,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return self;
}
