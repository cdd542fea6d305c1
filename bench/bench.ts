/**
 * `npm run bench [-- NAME… [OPTIONS]]`: compares waybill with other programs that people use for the same
 * purpose. They take turns, and the results are medians and ratios. Absolute times depend on the machine, so
 * only the ratios should be quoted. Without a NAME, runs the benchmarks for the documented goals and lists
 * all goals at the end.
 */
import { MissingService } from '../test/services/debian.ts';
import { handles, local } from './local.ts';
import { printGoals } from './measure.ts';

const benches: Record<string, (options: readonly string[]) => Promise<boolean>> = {
  local,
  handles,
  weather: async () => (await import('./weather.ts')).weather(),
  s3: async () => (await import('./s3.ts')).s3(),
  sftp: async () => (await import('./sftp.ts')).sftp(),
  'sftp-large': async () => (await import('./sftp.ts')).sftpLarge(),
  rate: async () => (await import('./rate.ts')).rate(),
  incremental: async () => (await import('./incremental.ts')).incremental(),
  releases: async () => (await import('./releases.ts')).releases(),
  catalog: async () => (await import('./catalog.ts')).catalog(),
  scale: async () => (await import('./scale.ts')).scale(),
  accept: async () => (await import('./accept.ts')).accept(),
  upload: async () => (await import('./upload.ts')).upload(),
  scaling: async () => (await import('./scaling.ts')).scaling(),
  relative: async () => (await import('./relative.ts')).relative(),
  push: async () => (await import('./push.ts')).push(),
  subscribers: async () => (await import('./subscribers.ts')).followed(),
  console: async () => (await import('./console.ts')).consolePages(),
  health: async () => (await import('./health.ts')).health(),
  anonymous: async () => (await import('./anonymous.ts')).anonymous(),
  revocation: async () => (await import('./revocation.ts')).revocation(),
  soak: async (options) => (await import('./soak.ts')).soak(options),
  'scene-map': async () => {
    await import('./scene-map.ts');
    return true;
  },
};

/** The benchmarks for the documented goals. */
const promised = ['local', 'sftp-large', 'accept', 'upload'];

const words = process.argv.slice(2);
const firstOption = words.findIndex((word) => word.startsWith('--'));
const asked = firstOption === -1 ? words : words.slice(0, firstOption);
const options = firstOption === -1 ? [] : words.slice(firstOption);
const names = asked.length === 0 ? promised : asked;
const unknown = names.filter((name) => !(name in benches));
if (unknown.length > 0) {
  console.error(`usage: npm run bench -- [NAME…]   (one or more of: ${Object.keys(benches).join(', ')})`);
  process.exit(2);
}
let reached = true;
try {
  for (const name of names) reached = (await benches[name]!(options)) && reached;
} catch (error) {
  if (!(error instanceof MissingService)) throw error;
  // The message says which package is missing and how to install it.
  console.error(`bench: ${error.message}`);
  process.exit(1);
}
if (asked.length === 0) printGoals();
process.exit(reached ? 0 : 1);
