import { Router, type RequestHandler } from 'express';
import type { BoardPorts } from './queue-board.ts';

/**
 * The board of the queues, at `admin/queues` below the base path; as long as there is no admin token, there
 * is nothing. Bull Board is loaded when somebody asks for it first.
 */
export function boardPage(ports: BoardPorts): RequestHandler {
  const path = `${ports.basePath}admin/queues`;
  let loading: Promise<RequestHandler> | undefined;
  return Router().use(path, async (req, res, next) => {
    if (ports.configured.get().adminToken === null) {
      next();
      return;
    }
    loading ??= import('./queue-board.ts').then(({ queueBoard }) => queueBoard(path, ports));
    const board = await loading;
    board(req, res, next);
  });
}
