import type { IncomingMessage } from 'node:http';
import type { RequestHandler } from 'express';
import { receivedTrace, traceFields } from '../../../core/tracing/trace-context.ts';
import type { Tracer } from '../../../core/tracing/span.ts';
import { requestContext } from './request-context.ts';

/**
 * Gives a request its span, which goes on with the trace that the client's `traceparent` names, if it names
 * one. It ends with the answer. Of a request whose token is refused nothing is reported: spans cost room, and
 * anybody can send such a request.
 */
export function requestSpan(tracer: Tracer): RequestHandler {
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
