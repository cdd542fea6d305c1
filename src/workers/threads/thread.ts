import { workerData } from 'node:worker_threads';
import { publishTask, type ThreadData } from './publish-task.ts';
import { lookTask } from './look-task.ts';
import { releasesTask } from './releases-task.ts';
import { sceneMapTask } from './scene-map-task.ts';

const data = workerData as ThreadData;
export const publish = publishTask(data);
export const releases = releasesTask(data);
export const looks = lookTask(data);
export const sceneMaps = sceneMapTask;
