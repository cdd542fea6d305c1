import { createBullBoard } from '@bull-board/api';
import { ExpressAdapter } from '@bull-board/express';
import { Router, type RequestHandler } from 'express';
import type { BoardQueues } from '../../workers/coordinator.ts';
import { requireAdmin } from './admin-auth.ts';
import type { Token } from '../http/auth.ts';

// Bull Board's page: scripts and styles of its own, styles that its components set on elements, and a favicon
// as data.
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

/**
 * Bull Board over the queues, behind the admin token, to look at only; to be mounted at `admin/queues` below
 * `basePath`.
 */
export function queueBoard(queues: BoardQueues, token: Token, basePath: string): RequestHandler {
  const adapter = new ExpressAdapter();
  adapter.setBasePath(`${basePath}admin/queues`);
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
  return board;
}
