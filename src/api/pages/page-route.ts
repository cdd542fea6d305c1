import { Router, type RequestHandler } from 'express';
import type { HttpPorts } from '../http/app.ts';
import type { Handler, Route } from '../http/route.ts';
import { createRouter } from '../http/router.ts';

/**
 * One address of pages: a route that is for people, and so is not in the OpenAPI document. Refusals that its
 * handlers throw are problem pages for whoever takes HTML.
 */
export interface PageRoute<Ports> extends Pick<Route<Ports>, 'method' | 'path' | 'isPresent' | 'isProbe'> {
  /** Makes the handlers, once. */
  handle: (ports: Ports) => Handler | readonly Handler[];
}

/** Serves them below the base path; a method that an address does not have is answered with 405. */
export function servePages<Ports extends HttpPorts>(
  pages: readonly PageRoute<Ports>[],
  ports: Ports,
): RequestHandler {
  return Router().use(ports.http.basePath, createRouter(pages, ports));
}
