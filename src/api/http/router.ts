import type { IncomingMessage } from 'node:http';
import type { RequestHandler, Router } from 'express';
import express from 'express';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Tracer } from '../../core/tracing/span.ts';
import { receivedTrace, traceFields } from '../../core/tracing/trace-context.ts';
import { type AuditTarget, recordAct, RecordLimiter } from './recorded-acts.ts';
import { requestContext } from './request/request-context.ts';
import type { Handler, Route } from './route.ts';

/**
 * The part of a route that is needed to serve requests. `Served` is what its handlers can see of other
 * routes.
 */
interface ServedRoute<Ports, Served> extends Pick<
  Route<Ports>,
  'method' | 'path' | 'isPresent' | 'isProbe' | 'isTraced' | 'problemForm' | 'audit'
> {
  handle: (ports: Ports, served: readonly Served[]) => Handler | readonly Handler[];
}

interface RouterPorts {
  clock: Clock;
  tracer?: Tracer;
  audit?: AuditTarget | null;
}

/**
 * Creates a router for the routes that this configuration includes. A method that a path does not support
 * gets a 405 with `Allow`.
 */
export function createRouter<Ports extends RouterPorts, R extends ServedRoute<Ports, R>>(
  routes: readonly R[],
  ports: Ports,
  via: 'api' | 'console' = 'api',
): Router {
  const router = express.Router({ strict: true, caseSensitive: true });
  const recordLimiter = new RecordLimiter(ports.clock);
  const present = routes.filter(({ isPresent }) => isPresent?.(ports) ?? true);
  for (const path of new Set(present.map((route) => route.path))) {
    const ofPath = present.filter((route) => route.path === path);
    const served = router.route(expressPath(path)).all(noteRoute(path, ofPath));
    for (const route of ofPath) {
      const spans = route.isTraced === true && ports.tracer?.isOn === true ? [requestSpan(ports.tracer)] : [];
      const records = recordsOf(route, ports.audit, { via, recordLimiter });
      const handlers = [...spans, ...records, route.handle(ports, present)].flat();
      served[route.method](...(handlers as RequestHandler[]));
    }
    served.all(onlyMethods(ofPath.flatMap(({ method }) => (method === 'get' ? ['get', 'head'] : [method]))));
  }
  return router;
}

function recordsOf(
  { audit: act }: Pick<Route<never>, 'audit'>,
  audit: AuditTarget | null = null,
  options: { via: 'api' | 'console'; recordLimiter: RecordLimiter },
): RequestHandler[] {
  return typeof act === 'string' && audit !== null ? [recordAct({ audit, act, ...options })] : [];
}

/** Converts `/runs/{run_id}` to `/runs/:runId`. */
export function expressPath(path: string): string {
  return path.replaceAll(
    /\{([a-z_]+)\}/g,
    (_whole, name: string) =>
      `:${name.replaceAll(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase())}`,
  );
}

function noteRoute(
  path: string,
  ofPath: readonly Pick<Route<never>, 'isProbe' | 'problemForm'>[],
): RequestHandler {
  const isProbe = ofPath.some((route) => route.isProbe === true);
  const problemForm = ofPath.find((route) => route.problemForm !== undefined)?.problemForm;
  return (req, _res, next) => {
    const context = Object.assign(requestContext(req), { route: path, isProbe });
    if (problemForm !== undefined) context.problemForm = problemForm(req.originalUrl, req.headers.accept);
    next();
  };
}

function onlyMethods(methods: readonly string[]): RequestHandler {
  const allow = [...new Set(methods)].map((method) => method.toUpperCase()).join(', ');
  return (req, res) => {
    res.setHeader('Allow', allow);
    throw new WaybillError('method_not_allowed', `${req.method} is not possible here`, {
      hint: `use ${allow}`,
    });
  };
}

/**
 * Starts a span for each request and ends it with the response. If the client sent a `traceparent`, that
 * trace is the parent. Requests with an invalid token are not traced, because spans take up storage and
 * anyone can send such requests.
 */
function requestSpan(tracer: Tracer): RequestHandler {
  return (req, res, next) => {
    const context = requestContext(req);
    const route = context.route ?? '';
    const span = tracer.start(`${req.method} ${route}`, {
      parent: receivedTrace(lineOf(req, 'traceparent'), lineOf(req, 'tracestate')),
      kind: 'server',
      attributes: { 'http.request.method': req.method, 'http.route': route },
    });
    context.trace = span.trace;
    Object.assign(context.fields, traceFields(span.trace));
    res.once('close', () => {
      if (res.headersSent) span.set({ 'http.response.status_code': res.statusCode });
      if (res.statusCode === 401 || res.statusCode === 403) return;
      if (!res.writableFinished) span.fail('aborted');
      else if (res.statusCode >= 500) span.fail(String(res.statusCode));
      const { run_id: runId, pipeline_id: pipelineId } = context.fields;
      if (runId !== undefined) span.set({ 'waybill.run_id': runId });
      if (pipelineId !== undefined) span.set({ 'waybill.pipeline_id': pipelineId });
      span.end();
    });
    next();
  };
}

/** If a header is repeated, Node.js joins its values. */
function lineOf({ headers }: IncomingMessage, name: 'traceparent' | 'tracestate'): string | undefined {
  const line = headers[name];
  return typeof line === 'string' ? line : undefined;
}
