/** Prints the results of `npm run bench -- scaling` as tables. */
import type { Costs } from './costs.ts';
import { loads, needsOf } from './plan.ts';
import type { Usage } from './usage.ts';

export function costTable(costs: Costs): string {
  const { upload, run, otherWorker, poll, event, idle, weather, s3Requests, bytes } = costs;
  const queueRow = (name: string, usage: Usage, network = '–', storage = '–'): string[] => [
    name,
    ms(usage.mainMs),
    ms(usage.otherMs),
    ms(usage.redisMs),
    usage.redisCommands.toFixed(1),
    network,
    storage,
  ];
  const weatherRow = (name: string, { ms: cost }: { ms: number }): string[] => [
    ...[name, ms(cost), '–', '–', '–', kib(bytes.weather), '–'],
  ];
  return table(
    ['', 'main thread', 'other threads', 'Redis', 'Redis commands', 'network', 'S3 requests'],
    [
      queueRow('an upload of two small files, up to its 202', upload, kib(bytes.upload)),
      queueRow('its run', run, '–', `${s3Requests.created}; ${s3Requests.unchanged} with nothing to do`),
      queueRow('notifying each other worker of it', otherWorker),
      queueRow('a poll of a run', poll, kib(bytes.poll)),
      queueRow('a change of a run, for each subscriber', event, kib(bytes.event)),
      queueRow('an idle worker, per second', idle.process),
      queueRow('an idle worker, per second and pipeline', idle.pipeline),
      weatherRow('a weather read from memory', weather.kept),
      weatherRow(`a weather read from PostgreSQL (${ms(weather.read.databaseMs)} there)`, weather.read),
    ],
  );
}

export function needsTable(costs: Costs): string {
  const needs = loads.map((load) => ({ ...load, ...needsOf(load, costs) }));
  const of = (name: string, value: (one: (typeof needs)[number]) => string): string[] => [
    name,
    ...needs.map(value),
  ];
  return table(
    ['', ...needs.map(({ name }) => name)],
    [
      of('runs per second', ({ runsPerSecond }) => count(runsPerSecond)),
      of('dashboards', ({ dashboards }) => count(dashboards)),
      of('API processes', ({ apis }) => count(apis)),
      of('worker processes', ({ workers }) => count(workers)),
      of('hosts of 8 cores', ({ hosts }) => count(hosts)),
      of('one Redis is busy', ({ redis }) => `${(redis * 60).toFixed(0)} %`),
      of(
        'Redis time for workers looking for runs',
        ({ lookingShare }) => `${(lookingShare * 100).toFixed(0)} %`,
      ),
      of('pipelines, at least', ({ pipelines }) => count(pipelines)),
      of('weather readers', ({ weatherReaders }) => count(weatherReaders)),
      of('network, Mbit/s', ({ megabitsPerSecond }) => count(megabitsPerSecond)),
      of('S3 requests per second, if S3 is the destination', (one) => count(one.s3RequestsPerSecond)),
      of('first limit', ({ firstLimit }) => firstLimit),
    ],
  );
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map((_, index) => (index === 0 ? '---' : '---:'))), ...rows.map(line)].join(
    '\n',
  );
}

function ms(value: number): string {
  return value >= 100
    ? `${value.toFixed(0)} ms`
    : value >= 0.95
      ? `${value.toFixed(1)} ms`
      : `${(value * 1000).toFixed(0)} µs`;
}

function kib(bytes: number): string {
  return `${(bytes / 1024).toFixed(1)} KiB`;
}

function count(value: number): string {
  return Math.ceil(value).toLocaleString('en');
}
