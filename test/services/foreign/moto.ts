import { freePort } from '../free-port.ts';
import { firstLineOf, type StartS3, withBucket } from './foreign-s3.ts';
import { newerDebian } from './newer-debian.ts';
import { ownDirectory, startServer } from './server-process.ts';

/** The server for testing Python programs. It stores everything in memory. */
export const startMoto: StartS3 = async (t) => {
  const { through } = await newerDebian();
  const directory = ownDirectory(t, 'moto');
  const before = through(directory);
  const port = await freePort();
  const command = [...before, 'python3', '-m', 'moto.server', '-H', '127.0.0.1', '-p', String(port)];
  await startServer(t, command, { port, directory });
  const version = await firstLineOf([...before, 'python3', '-c', 'import moto; print(moto.__version__)']);
  const user = { id: 'test', accessKeyId: 'ANYKEY', secretAccessKey: 'any-secret' };
  return withBucket({ version, endpoint: `http://127.0.0.1:${port}`, user });
};
