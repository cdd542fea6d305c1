import { createBullBoard } from '@bull-board/api';
import { ExpressAdapter } from '@bull-board/express';
import { Router, type RequestHandler } from 'express';
import type { BoardQueues } from '../../workers/coordinator.ts';
import { requireAdmin } from './admin-auth.ts';
import type { KnownToken } from '../http/auth.ts';

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

/** Serves Bull Board, read-only and behind the admin token, at `admin/queues` below `basePath`. */
export function queueBoard(queues: BoardQueues, token: KnownToken, basePath: string): RequestHandler {
  const adapter = new ExpressAdapter();
  const path = `${basePath}admin/queues`;
  adapter.setBasePath(path);
  createBullBoard({
    queues,
    serverAdapter: adapter,
    options: { uiConfig: { boardTitle: 'waybill' } },
  });
  const board = Router();
  board.use(requireAdmin(token));
  board.use((_req, res, next) => {
    res.setHeader('Content-Security-Policy', contentSecurityPolicy);
    res.setHeader('Referrer-Policy', 'no-referrer');
    next();
  });
  board.use(adapter.getRouter() as RequestHandler);
  return Router().use(path, board);
}
