import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import path from 'node:path';

/** A server in a separate process. */
export interface Served {
  /** The URL, without a slash at the end. */
  url: string;
  pid: number;
}

export interface Servers {
  /** Starts the weather reader from the build. `cache` is how long it caches responses. */
  reader(cache: string): Promise<Served>;
  /** Starts a server from `weather-rivals.mjs`. */
  rival(kind: 'express' | 'http' | 'map'): Promise<Served>;
  close(): void;
}

/**
 * Starts servers for the same database. They run as in production: from a build, and with their logs
 * discarded.
 */
export function openServers(directory: string, databaseUrl: string): Servers {
  const children: ChildProcess[] = [];
  const serve = async (command: string[], port: number): Promise<Served> => {
    const child = spawn(process.execPath, command, {
      env: { ...process.env, NODE_ENV: 'production', WEATHER_URL: databaseUrl },
      stdio: 'ignore',
    });
    children.push(child);
    const url = `http://127.0.0.1:${port}`;
    while (child.exitCode === null) {
      const answer = await fetch(`${url}/observations?station=K0007`).catch(() => null);
      if (answer?.ok === true && child.pid !== undefined) return { url, pid: child.pid };
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error(`${command.join(' ')} ended with ${child.exitCode}`);
  };
  return {
    async reader(cache) {
      const port = await freePort();
      return serve(['dist/cli/weather.js', '-config', configuration(directory, port, cache)], port);
    },
    async rival(kind) {
      const port = await freePort();
      return serve(['bench/weather-rivals.mjs', kind, String(port), databaseUrl], port);
    },
    close: () => children.forEach((child) => child.kill()),
  };
}

function configuration(directory: string, port: number, cache: string): string {
  const file = path.join(directory, `${port}.yml`);
  // Nothing is ever stale, because the other servers do not check that.
  writeFileSync(
    file,
    `server: { http: { listen: "127.0.0.1:${port}" } }
databases: [{ name: bench, driver: postgres, url_env: WEATHER_URL, pool_size: 8 }]
weather: { cache: ${cache}, stale_after: { observations: 365d, alerts: 365d } }
`,
  );
  return file;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
