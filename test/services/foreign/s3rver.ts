import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { freePort } from '../free-port.ts';
import { npmPackage } from '../npm-package.ts';
import { type StartS3, withBucket } from './foreign-s3.ts';
import { ownDirectory, startServer } from './server-process.ts';

const version = '3.7.1';

/** The server for testing Node.js programs. It stores objects as files of a directory. */
export const startS3rver: StartS3 = async (t) => {
  const place = await npmPackage('s3rver', version);
  const directory = ownDirectory(t, 's3rver');
  const port = await freePort();
  const data = path.join(directory, 'data');
  mkdirSync(data);
  const options = ['--directory', data, '--address', '127.0.0.1', '--port', String(port), '--silent'];
  const program = path.join(place, 'bin/s3rver.js');
  await startServer(t, [process.execPath, program, ...options], { port, directory });
  const user = { id: 'S3RVER', accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' };
  return withBucket({ version, endpoint: `http://127.0.0.1:${port}`, user });
};
