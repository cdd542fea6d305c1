import { workerData } from 'node:worker_threads';
import { publishTask, type ThreadData } from './publish-task.ts';

export const publish = publishTask(workerData as ThreadData);
