import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import type { Queue } from 'bullmq';

/**
 * The queues as Bull Board shows them. To look at, not to change: what it would add, retry or remove is a
 * run's, and runs have records of their own.
 */
export function boardQueues(queues: Iterable<Queue>): BullMQAdapter[] {
  return [...queues].map((queue) => new BullMQAdapter(queue, { readOnlyMode: true }));
}
