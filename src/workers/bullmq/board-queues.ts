import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import type { Queue } from 'bullmq';
import type { BoardQueues } from '../coordinator.ts';

/**
 * The queues as Bull Board shows them, read-only: a job that the board added, retried or removed would not
 * match the record of its run.
 */
export function boardQueues(queues: Iterable<Queue>): BoardQueues {
  return [...queues].map((queue) => new BullMQAdapter(queue, { readOnlyMode: true }));
}
