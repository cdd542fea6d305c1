import { createBullBoard } from '@bull-board/api';
import { ExpressAdapter } from '@bull-board/express';
import { Router, type RequestHandler } from 'express';
import type { Current } from '../../core/current.ts';
import type { BoardQueues } from '../../workers/coordinator.ts';
import { requireAdmin, type AdminAccess } from './admin-auth.ts';

// Bull Board's page needs its own scripts and styles, inline styles that its components set, and a favicon as
// a data URL.
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "manifest-src 'self'",
  "worker-src 'self'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

export interface BoardPorts {
  /** As they are now. */
  queues: () => BoardQueues;
  configured: Current<AdminAccess>;
  basePath: string;
}

/** Serves Bull Board, read-only and behind the admin token; to be mounted at `path`. */
export function queueBoard(path: string, { queues, configured }: BoardPorts): RequestHandler {
  const adapter = new ExpressAdapter();
  adapter.setBasePath(path);
  let shown = queues();
  const { replaceQueues } = createBullBoard({
    queues: shown,
    serverAdapter: adapter,
    options: { uiConfig: { boardTitle: 'waybill' } },
  });
  const board = Router();
  board.use(requireAdmin(configured));
  board.use((_req, res, next) => {
    const now = queues();
    if (now.length !== shown.length) replaceQueues((shown = now));
    res.setHeader('Content-Security-Policy', contentSecurityPolicy);
    res.setHeader('Referrer-Policy', 'no-referrer');
    next();
  });
  board.use(adapter.getRouter() as RequestHandler);
  return board;
}
