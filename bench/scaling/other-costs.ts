import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createTables } from '../../src/weather/feed/tables/create-tables.ts';
import { lookUp } from '../../src/weather/feed/tables/load-document.ts';
import { openServer } from '../../src/weather/feed/tables/open-server.ts';
import { startPostgres } from '../../test/services/postgres.ts';
import { startRadosgw } from '../../test/services/radosgw.ts';
import { startS3Proxy } from '../../test/services/s3-proxy.ts';
import { writeBundle } from '../bundle-files.ts';
import { waybill } from '../local.ts';
import { measureBeside } from '../measure.ts';
import { fillObservations, fillStations } from '../weather-data.ts';
import { load } from '../weather-load.ts';
import { openServers } from '../weather-servers.ts';

/** The processor time for a response, in milliseconds. */
export interface WeatherRead {
  ms: number;
  databaseMs: number;
}

export interface WeatherCosts {
  /** The cost of a cached response. */
  kept: WeatherRead;
  /** The cost of a response that has to be read from the database and rendered. */
  read: WeatherRead;
  /** The size of the request and the response in bytes. */
  bytes: number;
}

/** Measures requests for the latest observation of a station, with the weather reader and PostgreSQL. */
export async function weatherReads(directory: string): Promise<WeatherCosts> {
  mkdirSync(directory, { recursive: true });
  const server = await startPostgres();
  const servers = openServers(directory, server.url('weather_reader'));
  const owner = await openServer(server.url());
  try {
    await createTables(owner);
    await owner.run("alter role weather_reader set log_statement = 'none'");
    await fillStations(owner);
    await fillObservations(owner, 40_000);
    const costOf = async (cache: string): Promise<WeatherRead & { bytes: number }> => {
      const { url, pid } = await servers.reader(cache);
      const target = `${url}/observations?station=K0007`;
      const answer = await fetch(target);
      const bytes = (await answer.arrayBuffer()).byteLength + 500;
      // By now, the server has opened all of its connections.
      load({ url: target, pid, clients: 16, seconds: 2 });
      const connections = await lookUp(
        owner,
        "select pid from pg_stat_activity where application_name = 'waybill-weather'",
        [],
      );
      const databasePids = connections.map((row) => Number(row['pid']));
      const found = load({ url: target, pid, clients: 16, seconds: 4, databasePids });
      return { ms: found.cpuMicroseconds / 1000, databaseMs: found.databaseMicroseconds / 1000, bytes };
    };
    const kept = await costOf('1s');
    return { kept, read: await costOf('0s'), bytes: kept.bytes };
  } finally {
    servers.close();
    await owner.close();
    await server.remove();
  }
}

/** Counts the S3 requests for publishing two small files, if they are new and if nothing has changed. */
export async function requestsToS3(directory: string): Promise<{ created: number; unchanged: number }> {
  const releases: (() => unknown)[] = [];
  const t = { teardown: (release: () => unknown) => void releases.push(release) };
  try {
    const server = await startRadosgw(t);
    const proxy = await startS3Proxy(t, server);
    const bucket = await server.newBucket();
    writeBundle(path.join(directory, 'source', 'bundle'), 2, 1024);
    const config = path.join(directory, 'waybill.yaml');
    const { accessKeyId, secretAccessKey } = server.user;
    const destination = `backend: s3, endpoint: "${proxy.endpoint}", region: us-east-1, bucket: ${bucket}, access_key_id_env: BENCH_KEY, secret_access_key_env: BENCH_SECRET`;
    writeFileSync(
      config,
      `pipelines: [{id: bench, source: {backend: local, path: ./source}, destinations: [{id: out, ${destination}}]}]\n`,
    );
    const requests = async (): Promise<number> => {
      const before = proxy.seen.length;
      await measureBeside([...waybill, 'run', '--config', config], {
        BENCH_KEY: accessKeyId,
        BENCH_SECRET: secretAccessKey,
      });
      return proxy.seen.length - before;
    };
    const created = await requests();
    return { created, unchanged: await requests() };
  } finally {
    for (const release of releases.reverse()) await release();
  }
}
