import express, { type RequestHandler, type Router } from 'express';
import { WaybillError } from '../../core/lib/errors.ts';
import { requestContext } from './request/request-context.ts';
import { requestSpan } from './request/request-span.ts';
import type { Handler, Route } from './route.ts';
import type { Tracer } from '../../core/tracing/span.ts';

/** What of a route is served; the rest of it describes that. `Served` is what it may know of the others. */
export interface ServedRoute<Ports, Served> extends Pick<
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
