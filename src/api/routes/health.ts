import type { RequestHandler } from 'express';
import { WaybillError } from '../../core/errors.ts';
import type { ApiPorts } from '../ports.ts';

/** Readiness: 200 while uploads are taken, 503 while draining and while the queue is away. */
export function health(ports: Pick<ApiPorts, 'isDraining' | 'queue'>): RequestHandler {
  return async (_req, res) => {
    if (ports.isDraining())
      throw new WaybillError('shutting_down', 'the daemon is stopping and takes no new uploads');
    await ports.queue.depth();
    res.json({ status: 'ok' });
  };
}
