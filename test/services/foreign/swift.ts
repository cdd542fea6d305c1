import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../free-port.ts';
import { firstLineOf, type StartS3, withBucket } from './foreign-s3.ts';
import { newerDebian } from './newer-debian.ts';
import { ownDirectory, startServer } from './server-process.ts';

const run = promisify(execFile);
const kinds = ['account', 'container', 'object'] as const;

/** OpenStack Swift with its s3api: one proxy, and one replica on one device. */
export const startSwift: StartS3 = async (t) => {
  const { through } = await newerDebian();
  const directory = ownDirectory(t, 'swift');
  const before = through(directory);
  const call = async (...command: string[]): Promise<unknown> => {
    const [program = '', ...args] = [...before, ...command];
    return run(program, args);
  };
  const at = (name: string): string => path.join(directory, name);
  mkdirSync(at('devices/d1'), { recursive: true });
  writeFileSync(
    at('swift.conf'),
    '[swift-hash]\nswift_hash_path_suffix = tests\nswift_hash_path_prefix = tests\n',
  );

  await Promise.all(
    kinds.map(async (kind) => {
      const port = await freePort();
      const builder = at(`${kind}.builder`);
      await call('swift-ring-builder', builder, 'create', '8', '1', '0');
      await call('swift-ring-builder', builder, 'add', `r1z1-127.0.0.1:${port}/d1`, '1');
      await call('swift-ring-builder', builder, 'rebalance');
      writeFileSync(at(`${kind}.conf`), storageConf(kind, port, directory));
      await startServer(t, [...before, `swift-${kind}-server`, at(`${kind}.conf`)], { port, directory });
    }),
  );
  const [port, memcached] = [await freePort(), await freePort()];
  const cache = [...before, 'memcached', '-u', 'root', '-l', '127.0.0.1', '-p', String(memcached)];
  await startServer(t, cache, { port: memcached, directory });
  writeFileSync(at('proxy.conf'), proxyConf(port, memcached, directory));
  await startServer(t, [...before, 'swift-proxy-server', at('proxy.conf')], { port, directory });
  const version = await firstLineOf([...before, 'python3', '-c', 'import swift; print(swift.__version__)']);
  const user = { id: 'test:tester', accessKeyId: 'test:tester', secretAccessKey: 'testing' };
  // It checks for an object, and then puts its own, so sometimes two of many succeed.
  const lacks = ['exclusive creation succeeds once among twenty contenders'];
  return withBucket({ version, endpoint: `http://127.0.0.1:${port}`, user, lacks });
};

function storageConf(kind: (typeof kinds)[number], port: number, directory: string): string {
  return `[DEFAULT]
user = root
bind_ip = 127.0.0.1
bind_port = ${port}
swift_dir = ${directory}
devices = ${directory}/devices
mount_check = false
workers = 0
[pipeline:main]
pipeline = ${kind}-server
[app:${kind}-server]
use = egg:swift#${kind}
`;
}

function proxyConf(port: number, memcached: number, directory: string): string {
  return `[DEFAULT]
user = root
bind_ip = 127.0.0.1
bind_port = ${port}
swift_dir = ${directory}
workers = 0
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck proxy-logging cache listing_formats bulk s3api tempauth copy slo dlo versioned_writes proxy-logging proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
min_segment_size = 5242880
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:${memcached}
[filter:versioned_writes]
use = egg:swift#versioned_writes
allow_versioned_writes = true
[filter:proxy-logging]
use = egg:swift#proxy_logging
${['catch_errors', 'gatekeeper', 'healthcheck', 'listing_formats', 'bulk', 'copy', 'slo', 'dlo'].map((name) => `[filter:${name}]\nuse = egg:swift#${name}`).join('\n')}
`;
}
