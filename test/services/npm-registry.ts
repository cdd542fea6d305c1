import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';

/**
 * A loopback registry with one package, as published on npm. Forwards requests for other packages to npm's
 * registry. npm installs the pinned dependencies of a package only from a registry.
 */
export async function startNpmRegistry(t: Pick<Test, 'teardown'>, tarball: string): Promise<string> {
  const bytes = readFileSync(tarball);
  const text = execFileSync('tar', ['-xzOf', tarball, 'package/package.json'], { encoding: 'utf8' });
  const manifest = JSON.parse(text) as { name: string; version: string };
  const { name, version } = manifest;
  const upstream = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim();
  const server = createServer((request, response) => {
    const place = `http://${request.headers.host ?? ''}/${name}/-/package.tgz`;
    if (request.url === `/${name}`) {
      const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`;
      const published = { ...manifest, _hasShrinkwrap: true, dist: { tarball: place, integrity } };
      response.setHeader('content-type', 'application/json');
      response.end(
        JSON.stringify({ name, 'dist-tags': { latest: version }, versions: { [version]: published } }),
      );
    } else if (place.endsWith(request.url ?? '?')) response.end(bytes);
    else response.writeHead(302, { location: new URL(request.url ?? '', upstream).href }).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}
