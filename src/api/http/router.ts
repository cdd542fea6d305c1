import type { IncomingMessage } from 'node:http';
import type { RequestHandler, Router } from 'express';
import express from 'express';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Tracer } from '../../core/tracing/span.ts';
import { receivedTrace, traceFields } from '../../core/tracing/trace-context.ts';
import { requestContext } from './request/request-context.ts';
import type { Handler, Route } from './route.ts';

/** What of a route is served; the rest of it describes that. `Served` is what it may know of the others. */
interface ServedRoute<Ports, Served> extends Pick<
  Route<Ports>,
  'method' | 'path' | 'isPresent' | 'isProbe' | 'isTraced' | 'problemForm'
> {
  handle: (ports: Ports, served: readonly Served[]) => Handler | readonly Handler[];
}

/**
 * Serves the routes that are present. A path that exists answers every other method with 405 and `Allow`.
 */
export function createRouter<Ports extends { tracer?: Tracer }, R extends ServedRoute<Ports, R>>(
  routes: readonly R[],
  ports: Ports,
): Router {
  const router = express.Router({ strict: true, caseSensitive: true });
  const present = routes.filter(({ isPresent }) => isPresent?.(ports) ?? true);
  for (const path of new Set(present.map((route) => route.path))) {
    const ofPath = present.filter((route) => route.path === path);
    const served = router.route(expressPath(path)).all(noteRoute(path, ofPath));
    for (const route of ofPath) {
      const spans = route.isTraced === true && ports.tracer?.isOn === true ? [requestSpan(ports.tracer)] : [];
      served[route.method](...([...spans, route.handle(ports, present)].flat() as RequestHandler[]));
    }
    served.all(onlyMethods(ofPath.flatMap(({ method }) => (method === 'get' ? ['get', 'head'] : [method]))));
  }
  return router;
}

/** `/runs/{run_id}` → `/runs/:runId`. */
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
 * Gives a request its span, which goes on with the trace that the client's `traceparent` names, if it names
 * one. It ends with the answer. Of a request whose token is refused nothing is reported: spans cost room, and
 * anybody can send such a request.
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

/** Several lines of a name are one list, as Node.js has joined them. */
function lineOf({ headers }: IncomingMessage, name: 'traceparent' | 'tracestate'): string | undefined {
  const line = headers[name];
  return typeof line === 'string' ? line : undefined;
}
